// Sums over the elements of two vectors, with as many lanes as the processor has.
//
// The functions of the namespace `lanes` are inlined into kernels that are compiled for several processors. The other
// functions choose the processor at each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lance {

typedef float Floats __attribute__((vector_size(64)));

float squared_distance(const float* a, const float* b, size_t size);
float product(const float* a, const float* b, size_t size);
float product(const float* a, const uint8_t* b, size_t size);
uint32_t squared_distance(const uint8_t* a, const uint8_t* b, size_t size);
uint32_t differing_bits(const uint8_t* a, const uint8_t* b, size_t num_bytes);

namespace lanes {

#define LANCE_INLINE inline __attribute__((always_inline))

// Calls `add(sums, x, y)` with 16 elements of both vectors at a time, the rest padded with zeros.
template <class T, class Add>
LANCE_INLINE float sum_over(const float* a, const T* b, size_t size, Add add) {
  typedef T Other __attribute__((vector_size(16 * sizeof(T))));
  Floats sums[2] = {};
  auto step = [&](Floats& into, const float* from_a, const T* from_b) __attribute__((always_inline)) {
    Floats x;
    Other y;
    std::memcpy(&x, from_a, sizeof x);
    std::memcpy(&y, from_b, sizeof y);
    add(into, x, __builtin_convertvector(y, Floats));
  };
  size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    step(sums[0], a + i, b + i);
    step(sums[1], a + i + 16, b + i + 16);
  }
  for (; i + 16 <= size; i += 16) {
    step(sums[0], a + i, b + i);
  }
  if (i < size) {
    float rest_a[16] = {};
    T rest_b[16] = {};
    std::memcpy(rest_a, a + i, (size - i) * sizeof(float));
    std::memcpy(rest_b, b + i, (size - i) * sizeof(T));
    step(sums[1], rest_a, rest_b);
  }
  Floats both = sums[0] + sums[1];
  float sum = 0;
  for (int lane = 0; lane < 16; ++lane) sum += both[lane];
  return sum;
}

template <class T>
LANCE_INLINE float product(const float* a, const T* b, size_t size) {
  return sum_over(a, b, size,
                  [](Floats& into, const Floats& x, const Floats& y) __attribute__((always_inline)) { into += x * y; });
}

LANCE_INLINE float squared_distance(const float* a, const float* b, size_t size) {
  return sum_over(a, b, size, [](Floats& into, const Floats& x, const Floats& y) __attribute__((always_inline)) {
    Floats difference = x - y;
    into += difference * difference;
  });
}

LANCE_INLINE uint32_t squared_distance(const uint8_t* a, const uint8_t* b, size_t size) {
  uint32_t sum = 0;
  for (size_t i = 0; i < size; ++i) {
    int32_t difference = int32_t{a[i]} - int32_t{b[i]};
    sum += static_cast<uint32_t>(difference * difference);
  }
  return sum;
}

}  // namespace lanes
}  // namespace lance
