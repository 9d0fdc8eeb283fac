// Distances between query vectors and the vectors of a column.
//
//   l2        sum of the squared differences, without a root
//   cosine    1 - product / (length * length); NaN if one of the vectors has only zeros
//   dot       1 - product
//   hamming   number of different bits
//   product   the product itself, for codes whose distances are computed from it
//
// Sums are computed in float32, for vectors of float64 in float64. Distances are float32.
#pragma once

#include <vector>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class Element { float16, bfloat16, float32, float64, uint8, int8, uint16 };
enum class Metric { l2, cosine, dot, hamming, product };

size_t bytes_of(Element element);

// Queries, and how they are compared with vectors. Thread-safe.
class Comparison {
 public:
  // Most rows of one call of `compare`.
  static constexpr size_t kMostRows = 48;

  // Queries are float64 for vectors of float64, bytes for hamming, else float32. Copies the queries.
  // With `one_by_one`, the distances of a query do not depend on the other queries. Without it, the distances of many
  // queries may differ in the last digit, and those of short vectors are computed faster.
  Comparison(Bytes queries, size_t dimension, Element element, Metric metric, bool one_by_one = false);

  size_t num_queries() const { return num_queries_; }
  bool is_one_by_one() const { return !is_transposed_; }
  // Number of distances of each row in the result of `compare`, a little more than `num_queries`.
  size_t row_length() const { return row_length_; }
  // Bytes of one vector of the column.
  size_t vector_bytes() const { return dimension_ * bytes_of(element_); }
  // Bytes that `compare` and `compare_each` need to work in.
  size_t scratch_bytes() const;

  // Writes the distances of each row to all queries, and then the distances of the next row. Rows need no alignment.
  // Neither allocates nor throws: callers compare vectors in mapped files, under a guard (files/file_map.hpp).
  void compare(const uint8_t* const* rows, size_t num_rows, uint8_t* scratch, float* distances) const noexcept;

  // Writes the distances of some queries, by their numbers, to all rows: `kMostRows` floats per query, of which the
  // first `num_rows` are set. Queries must be compared one by one. Neither allocates nor throws.
  void compare_each(const uint8_t* const* rows, size_t num_rows, const uint32_t* queries, size_t num_queries,
                    uint8_t* scratch, float* distances) const noexcept;

 private:
  struct Target;

  void keep(Bytes queries);
  template <class T>
  void prepare(Bytes queries);
  void compare_with(const uint8_t* const* rows, size_t num_rows, const Target& target, uint8_t* scratch) const noexcept;
  template <class T>
  void compare_sums(const uint8_t* const* rows, size_t num_rows, const Target& target, uint8_t* scratch) const noexcept;

  size_t dimension_;
  Element element_;
  Metric metric_;
  size_t num_queries_;
  size_t row_length_;
  bool is_transposed_ = false;   // groups of queries are stored dimension by dimension
  Block queries_;                // in the order in which they are read
  std::vector<double> lengths_;  // of the queries, for cosine
};

}  // namespace lance
