// Where the elements of a subgroup's matrices lie (kernels/matrix_layout.py): the row and the column of element e of invocation l are sums
// over the set bits of e and of l, the same for an accumulator and for a matrix A. Four bits for each bit of e (three) or l (five).
layout(constant_id = 20) const uint ROWS_E = 0;
layout(constant_id = 21) const uint COLUMNS_E = 0;
layout(constant_id = 22) const uint ROWS_L = 0;
layout(constant_id = 23) const uint COLUMNS_L = 0;

const uint EACH = 8;                                  // elements of an invocation
const bool ROW_0 = (ROWS_E & 0xFu) != 0, ROW_1 = (ROWS_E & 0xF0u) != 0, ROW_2 = (ROWS_E & 0xF00u) != 0;
const uint CLASSES = (ROW_0 ? 2 : 1) * (ROW_1 ? 2 : 1) * (ROW_2 ? 2 : 1);         // different rows of an invocation
const uint SPOTS = EACH / CLASSES;                                              // and different columns

uint row_of_element(const uint e) { return (e & 1) * (ROWS_E & 15) + (e >> 1 & 1) * (ROWS_E >> 4 & 15) + (e >> 2) * (ROWS_E >> 8 & 15); }
uint column_of_element(const uint e) {
    return (e & 1) * (COLUMNS_E & 15) + (e >> 1 & 1) * (COLUMNS_E >> 4 & 15) + (e >> 2) * (COLUMNS_E >> 8 & 15);
}
// Which of the invocation's rows or columns an element lies in, and an element of each.
uint class_of(const uint e) {
    return (ROW_0 ? e & 1 : 0) + (ROW_1 ? (e >> 1 & 1) * (ROW_0 ? 2 : 1) : 0) + (ROW_2 ? (e >> 2) * ((ROW_0 ? 2 : 1) * (ROW_1 ? 2 : 1)) : 0);
}
uint spot_of(const uint e) {
    return (ROW_0 ? 0 : e & 1) + (ROW_1 ? 0 : (e >> 1 & 1) * (ROW_0 ? 1 : 2)) + (ROW_2 ? 0 : (e >> 2) * ((ROW_0 ? 1 : 2) * (ROW_1 ? 1 : 2)));
}

uint lane_sum(const uint bits, const uint lane) {
    uint sum = 0;
    [[unroll]] for (uint b = 0; b < 5; b++) sum += (lane >> b & 1) * (bits >> (4 * b) & 15);
    return sum;
}

// Largest or sum over the invocations that share a row.
float across_row(float x, const bool largest) {
    [[unroll]] for (uint b = 0; b < 5; b++)
        if ((COLUMNS_L >> (4 * b) & 15) != 0) {
            const float other = subgroupShuffleXor(x, 1u << b);
            x = largest ? max(x, other) : x + other;
        }
    return x;
}
