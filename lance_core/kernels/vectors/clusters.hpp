// Assignment of vectors to the nearest of many centroids, for k-means, partitions and product quantisation.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class Nearness { squared_distance, product };

struct Assignment {
  Block clusters;   // uint32 per vector: the number of the nearest centroid, the smallest number of equally near ones
  Block distances;  // float32 per vector: the squared distance, or 1 minus the product
};

// Assigns `num_vectors` vectors of `dimension` floats. Consecutive vectors are `stride` floats apart, so that they may
// be a part of longer vectors.
Assignment nearest_centroids(Nearness nearness, const float* vectors, size_t num_vectors, size_t stride,
                             size_t dimension, const float* centroids, size_t num_centroids);

// Adds each vector to the sum of its cluster, and counts the vectors of each cluster.
// Throws CorruptData if a cluster number is not below `num_clusters`.
void add_to_clusters(const float* vectors, size_t num_vectors, size_t stride, size_t dimension,
                     const uint32_t* clusters, size_t num_clusters, double* sums, int64_t* counts);

}  // namespace lance
