#version 460
// The best K of S scores of a row, and their values: index by falling score, the lower slot first on a tie, -1 where no finite score is
// left; value = values[index] + fast[index], 0 for -1. Formulas: hierarchos/kernels/memory_read.py. NumPy twin: memory_read_reference.
// One workgroup a row. Each of the K rounds finds the best slot that comes after the one before it.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats scores, values, fast;
    Ints index;
    Floats value;
    uint slots, count, width, own;                      // own: distance of the fast memories of two rows, 0 when they share one
};

const float LARGEST = 3.4028234663852886e38;
shared float best_[256];
shared uint slot_[256];

// Whether (a, i) comes before (b, j).
bool before(const float a, const uint i, const float b, const uint j) {
    return a > b || (a == b && i < j);
}

void main() {
    Floats scores_ = scores, values_ = values, fast_ = fast, value_ = value;
    Ints index_ = index;
    const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    const uint none = slots;
    float last = 0.0;
    uint last_slot = none;
    for (uint round = 0; round < count; round++) {
        float best = -LARGEST;
        uint slot = none;
        for (uint s = lane; s < slots; s += lanes) {
            const float x = scores_.at[row * slots + s];
            const bool open = abs(x) <= LARGEST && (last_slot == none || before(last, last_slot, x, s));
            if (open && (slot == none || before(x, s, best, slot))) {
                best = x;
                slot = s;
            }
        }
        best_[lane] = best;
        slot_[lane] = slot;
        barrier();
        for (uint other = 0; other < lanes; other++) {
            if (slot_[other] != none && (slot == none || before(best_[other], slot_[other], best, slot))) {
                best = best_[other];
                slot = slot_[other];
            }
        }
        barrier();
        const uint at = row * count + round;
        for (uint d = lane; d < width; d += lanes) {
            const uint from = min(slot, slots - 1) * width + d;
            const float found = values_.at[from] + fast_.at[row * own + from];
            value_.at[at * width + d] = slot == none ? 0.0 : found;
        }
        if (lane == 0) index_.at[at] = slot == none ? -1 : int(slot);
        if (slot != none) {
            last = best;
            last_slot = slot;
        } else {
            last = -LARGEST;                            // nothing comes after it
            last_slot = none - 1;
        }
    }
}
