// What works on `memory`, the shared quads of a kernel that includes attention_blocks.glsl.

// block += a b over the chunk of channels at `a` and `b`.
void multiply_channels(uint a, uint b, uint x, uint y) {
    [[unroll]] for (uint d = 0; d < CHUNK; d += 4) {
        const uint at_a = a + place_m(d, y), at_b = b + place_n(d, x);
        vec4 four[EXACT ? 8 : 1][EXACT ? GROUPS_M : 1];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            vec4 left[GROUPS_M], right[2];
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) left[g] = memory[at_a + i * LINE_M + 8 * g];
            [[unroll]] for (uint h = 0; h < 2; h++) right[h] = memory[at_b + i * LINE_N + 8 * h];
            [[unroll]] for (uint j = 0; j < 8; j++)
                [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
                    if (!EXACT) block[j][g] = fma(left[g], vec4(right[j / 4][j % 4]), block[j][g]);
                    else {
                        four[j][g] = i == 0 ? left[g] * right[j / 4][j % 4] : fma(left[g], vec4(right[j / 4][j % 4]), four[j][g]);
                        if (i == 3) block[j][g] += four[j][g];
                    }
                }
        }
    }
}

// sum += w b over CHUNK walked lines: from line n of the weights at `w`, from the first one at `b`.
void multiply_lines(uint w, uint n, uint b, uint x, uint y) {
    [[unroll]] for (uint line = n; line < n + CHUNK; line += 4) {
        const uint at_w = w + place_w(line, y), at_b = b + (line - n) * LINE_D + x;
        vec4 quad[EXACT ? EACH_M : 1][EXACT ? GROUPS_D : 1];
        [[unroll]] for (uint u = 0; u < 4; u++) {
            vec4 left[GROUPS_M], right[GROUPS_D];
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) left[g] = memory[at_w + u * LINE_M + 8 * g];
            [[unroll]] for (uint e = 0; e < GROUPS_D; e++) right[e] = memory[at_b + u * LINE_D + 8 * e];
            [[unroll]] for (uint i = 0; i < EACH_M; i++)
                [[unroll]] for (uint e = 0; e < GROUPS_D; e++) {
                    if (!EXACT) sum[i][e] = fma(vec4(left[i / 4][i % 4]), right[e], sum[i][e]);
                    else {
                        quad[i][e] = u == 0 ? left[i / 4][i % 4] * right[e] : fma(vec4(left[i / 4][i % 4]), right[e], quad[i][e]);
                        if (u == 3) add_exactly(sum[i][e], lost[i][e], quad[i][e]);
                    }
                }
        }
    }
}

// Keeps four channels of one line transposed.
void keep_m(uint at, uint line, uint quad, vec4 v) {
    [[unroll]] for (uint u = 0; u < 4; u++) memory[at + place_m(4 * quad + u, line / 4)][line % 4] = v[u];
}

void keep_n(uint at, uint line, uint quad, vec4 v) {
    [[unroll]] for (uint u = 0; u < 4; u++) memory[at + place_n(4 * quad + u, line / 4)][line % 4] = v[u];
}
