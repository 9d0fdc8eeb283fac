// Sums over the elements of two vectors, with as many lanes as the processor has.
//
// The functions of the namespace `lanes` are inlined into kernels that are compiled for several processors. The other
// functions choose the processor at each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lance {

typedef float Floats __attribute__((vector_size(32)));
constexpr size_t kFloats = 8;

float squared_distance(const float* a, const float* b, size_t size);
float product(const float* a, const float* b, size_t size);
float product(const float* a, const uint8_t* b, size_t size);
uint32_t squared_distance(const uint8_t* a, const uint8_t* b, size_t size);
uint32_t differing_bits(const uint8_t* a, const uint8_t* b, size_t num_bytes);

namespace lanes {

#define LANCE_INLINE inline __attribute__((always_inline))

// Loads floats.
LANCE_INLINE Floats load_floats(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

// Calls `add(sums, x, y)` with 8 elements of both vectors at a time, the rest padded with zeros.
template <class T, class Add>
LANCE_INLINE float sum_over(const float* a, const T* b, size_t size, Add add) {
  constexpr size_t kStep = 4 * kFloats;
  Floats sums[4] = {};
  auto steps = [&](const float* from_a, const float* from_b) __attribute__((always_inline)) {
    for (size_t k = 0; k < 4; ++k) add(sums[k], load_floats(from_a + k * kFloats), load_floats(from_b + k * kFloats));
  };
  float converted[kStep];
  size_t i = 0;
  for (; i + kStep <= size; i += kStep) {
    if constexpr (sizeof(T) == sizeof(float)) {
      steps(a + i, b + i);
    } else {
      for (size_t k = 0; k < kStep; ++k) converted[k] = static_cast<float>(b[i + k]);
      steps(a + i, converted);
    }
  }
  if (i < size) {
    float rest[kStep] = {};
    std::memcpy(rest, a + i, (size - i) * sizeof(float));
    for (size_t k = 0; k < kStep; ++k) converted[k] = i + k < size ? static_cast<float>(b[i + k]) : 0.0f;
    steps(rest, converted);
  }
  Floats both = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0;
  for (int lane = 0; lane < static_cast<int>(kFloats); ++lane) sum += both[lane];
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
