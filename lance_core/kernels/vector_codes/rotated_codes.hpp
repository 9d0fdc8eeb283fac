// Numbers of few bits for the elements of rotated vectors (RaBitQ).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lance {

// Writes a number of `bits` bits, 1 to 8, for each element. With `code` the number of its size, an element stands for
// `code + 0.5`. A negative element gets the complement of the code of its size. The scale of each vector is one that
// brings the coded vector nearly as close to the direction of the vector as possible.
void code_sizes(const float* vectors, size_t num_vectors, size_t dimension, unsigned bits, uint8_t* codes);

}  // namespace lance
