#include "vector_codes/rotated_codes.hpp"

#include <algorithm>
#include <cmath>

#include "base/common.hpp"
#include "vectors/row_sums.hpp"

namespace lance {

namespace {

// Scales that are tried, relative to the one that gives the largest element the largest code. Larger scales cut off
// large elements and give the others finer steps.
constexpr float kLeastScale = 0.8f;
constexpr float kScaleStep = 1.045f;
constexpr int kNumScales = 28;

// The cosine of a vector and its coded sizes, times the norm of the vector. `sizes` is padded to full lanes with zeros,
// which have the code 0, so that each padded element adds the same to all norms.
LANCE_INLINE float closeness(const float* sizes, size_t padded, float scale, float most) {
  Floats products{}, squares{};
  Floats top = Floats{} + (most + 0.5f);
  for (size_t i = 0; i < padded; i += kFloats) {
    Floats size;
    std::memcpy(&size, sizes + i, sizeof size);
    typedef int32_t Whole __attribute__((vector_size(sizeof(Floats))));
    Floats coded = __builtin_convertvector(__builtin_convertvector(size * scale, Whole), Floats) + 0.5f;
    coded = coded < top ? coded : top;
    products += coded * size;
    squares += coded * coded;
  }
  float product = 0, square = 0;
  for (size_t lane = 0; lane < kFloats; ++lane) {
    product += products[lane];
    square += squares[lane];
  }
  return product / std::sqrt(square);
}

LANCE_MULTIVERSION void code_vector(const float* vector, size_t dimension, float most, float* sizes, uint8_t* codes) {
  size_t padded = (dimension + kFloats - 1) / kFloats * kFloats;
  float largest = 0;
  for (size_t i = 0; i < dimension; ++i) {
    sizes[i] = std::fabs(vector[i]);
    largest = std::max(largest, sizes[i]);
  }
  std::fill(sizes + dimension, sizes + padded, 0.0f);
  float best = 0;
  if (largest > 0) {
    float scale = kLeastScale * (most + 0.999f) / largest, best_closeness = -1;
    for (int step = 0; step < kNumScales; ++step, scale *= kScaleStep) {
      float found = closeness(sizes, padded, scale, most);
      if (found > best_closeness) {
        best_closeness = found;
        best = scale;
      }
    }
  }
  for (size_t i = 0; i < dimension; ++i) {
    float code = std::min(std::floor(sizes[i] * best), most);
    codes[i] = static_cast<uint8_t>(std::signbit(vector[i]) ? most - code : code);
  }
}

}  // namespace

void code_sizes(const float* vectors, size_t num_vectors, size_t dimension, unsigned bits, uint8_t* codes) {
  if (bits < 1 || bits > 8) corrupt("codes of %u bits", bits);
  std::vector<float> sizes((dimension + kFloats - 1) / kFloats * kFloats);
  float most = static_cast<float>((1u << bits) - 1);
  for (size_t row = 0; row < num_vectors; ++row) {
    code_vector(vectors + row * dimension, dimension, most, sizes.data(), codes + row * dimension);
  }
}

}  // namespace lance
