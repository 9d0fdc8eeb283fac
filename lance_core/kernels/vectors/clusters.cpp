#include "vectors/clusters.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "vectors/widths.hpp"

namespace lance {

namespace {

constexpr size_t kLanes = 16;  // centroids that are compared at once
constexpr size_t kRows = 8;    // vectors that are compared at once

// Centroids in groups of 16, dimension by dimension, each group followed by its biases. A vector is nearest to the
// centroid with the least `bias - 2 * product`, for which l2 needs one multiplication per element.
struct PackedCentroids {
  size_t dimension, num_groups;
  std::vector<float> center;  // subtracted from vectors and centroids, so that far-off data keeps its digits
  Block values;

  PackedCentroids(Nearness nearness, const float* centroids, size_t count, size_t dim)
      : dimension(dim),
        num_groups((count + kLanes - 1) / kLanes),
        center(dim, 0.0f),
        values(std::max<size_t>(num_groups * (dim + 1) * kLanes, 1) * sizeof(float)) {
    if (nearness == Nearness::squared_distance) {
      for (size_t j = 0; j < dim; ++j) {
        double sum = 0;
        for (size_t c = 0; c < count; ++c) sum += centroids[c * dim + j];
        center[j] = static_cast<float>(sum / static_cast<double>(count));
      }
    }
    float* to = floats();
    for (size_t group = 0; group < num_groups; ++group, to += (dim + 1) * kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        size_t c = group * kLanes + lane;
        double norm = 0;
        for (size_t j = 0; j < dim; ++j) {
          float value = c < count ? centroids[c * dim + j] - center[j] : 0.0f;
          to[j * kLanes + lane] = nearness == Nearness::squared_distance ? 2 * value : value;
          norm += double{value} * value;
        }
        float bias = nearness == Nearness::squared_distance ? static_cast<float>(norm) : 1.0f;
        to[dim * kLanes + lane] = c < count ? bias : std::numeric_limits<float>::infinity();
      }
    }
  }

  float* floats() const { return reinterpret_cast<float*>(values.data()); }
};

// Vectors of `kBytes`.
template <size_t kBytes>
struct Lanes {
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef int32_t Numbers __attribute__((vector_size(kBytes)));
  static constexpr size_t kWidth = kBytes / sizeof(float);
  static constexpr size_t kParts = kLanes / kWidth;  // of a group of centroids
};

// Finds the nearest centroids of R of the kRows vectors in `rows`, which has them dimension by dimension:
// [dimension][kRows]. Their sums fill the registers of the processor.
template <size_t kBytes, size_t R>
__attribute__((always_inline)) inline void nearest_of_rows(const float* rows, const float* packed, size_t dimension,
                                                           size_t num_groups, uint32_t* clusters, float* scores) {
  using L = Lanes<kBytes>;
  typename L::Floats least[R];
  typename L::Numbers where[R];
  for (size_t r = 0; r < R; ++r) {
    least[r] = typename L::Floats{} + std::numeric_limits<float>::infinity();
    where[r] = typename L::Numbers{};
  }
  typename L::Numbers numbers;
  for (size_t lane = 0; lane < L::kWidth; ++lane) numbers[lane] = static_cast<int32_t>(lane);
  for (size_t group = 0; group < num_groups; ++group, packed += (dimension + 1) * kLanes) {
    typename L::Floats sums[L::kParts][R];
    for (size_t part = 0; part < L::kParts; ++part) {
      typename L::Floats bias;
      std::memcpy(&bias, packed + dimension * kLanes + part * L::kWidth, sizeof bias);
      for (size_t r = 0; r < R; ++r) sums[part][r] = bias;
    }
    for (size_t j = 0; j < dimension; ++j) {
      for (size_t part = 0; part < L::kParts; ++part) {
        typename L::Floats centroid;
        std::memcpy(&centroid, packed + j * kLanes + part * L::kWidth, sizeof centroid);
        for (size_t r = 0; r < R; ++r) sums[part][r] -= centroid * rows[j * kRows + r];
      }
    }
    for (size_t part = 0; part < L::kParts; ++part) {
      for (size_t r = 0; r < R; ++r) {
        typename L::Numbers nearer = sums[part][r] < least[r];
        least[r] = nearer ? sums[part][r] : least[r];
        where[r] = nearer ? numbers : where[r];
      }
      numbers += static_cast<int32_t>(L::kWidth);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    float score = least[r][0];
    int32_t number = where[r][0];
    for (size_t lane = 1; lane < L::kWidth; ++lane) {
      float other = least[r][lane];
      if (other < score || (other == score && where[r][lane] < number)) {
        score = other;
        number = where[r][lane];
      }
    }
    clusters[r] = static_cast<uint32_t>(number);
    scores[r] = score;
  }
}

template <size_t kBytes, size_t R>
__attribute__((always_inline)) inline void nearest_in_steps(const float* rows, const float* packed, size_t dimension,
                                                            size_t num_groups, uint32_t* clusters, float* scores) {
  for (size_t r = 0; r < kRows; r += R) {
    nearest_of_rows<kBytes, R>(rows + r, packed, dimension, num_groups, clusters + r, scores + r);
  }
}

LANCE_BY_WIDTH(nearest_of_block,
               (const float* rows, const float* packed, size_t dimension, size_t num_groups, uint32_t* clusters,
                float* scores),
               (rows, packed, dimension, num_groups, clusters, scores),
               nearest_in_steps<kBytes, kBytes / 8>(rows, packed, dimension, num_groups, clusters, scores))

}  // namespace

Assignment nearest_centroids(Nearness nearness, const float* vectors, size_t num_vectors, size_t stride,
                             size_t dimension, const float* centroids, size_t num_centroids) {
  Assignment result{Block(num_vectors * sizeof(uint32_t)), Block(num_vectors * sizeof(float))};
  if (num_vectors == 0) return result;
  PackedCentroids packed(nearness, centroids, num_centroids, dimension);
  std::vector<float> block(dimension * kRows);
  for (size_t start = 0; start < num_vectors; start += kRows) {
    size_t n = std::min(kRows, num_vectors - start);
    double norms[kRows] = {};
    for (size_t r = 0; r < kRows; ++r) {
      const float* vector = vectors + (start + std::min(r, n - 1)) * stride;
      for (size_t j = 0; j < dimension; ++j) {
        float value = vector[j] - packed.center[j];
        block[j * kRows + r] = value;
        norms[r] += double{value} * value;
      }
    }
    uint32_t clusters[kRows];
    float scores[kRows];
    nearest_of_block(block.data(), packed.floats(), dimension, packed.num_groups, clusters, scores);
    for (size_t r = 0; r < n; ++r) {
      if (nearness == Nearness::squared_distance) {
        scores[r] = std::max(0.0f, static_cast<float>(norms[r] + scores[r]));
      }
    }
    std::memcpy(result.clusters.data() + start * sizeof(uint32_t), clusters, n * sizeof(uint32_t));
    std::memcpy(result.distances.data() + start * sizeof(float), scores, n * sizeof(float));
  }
  return result;
}

void add_to_clusters(const float* vectors, size_t num_vectors, size_t stride, size_t dimension,
                     const uint32_t* clusters, size_t num_clusters, double* sums, int64_t* counts) {
  for (size_t i = 0; i < num_vectors; ++i) {
    if (clusters[i] >= num_clusters) {
      corrupt("cluster %u of %zu", clusters[i], num_clusters);
    }
    double* sum = sums + clusters[i] * dimension;
    const float* vector = vectors + i * stride;
    for (size_t j = 0; j < dimension; ++j) sum[j] += vector[j];
    counts[clusters[i]] += 1;
  }
}

}  // namespace lance
