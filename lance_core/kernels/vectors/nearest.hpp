// The vectors that are nearest to queries: distances of rows, and the best rows of each query.
#pragma once

#include <optional>
#include <vector>

#include "base/pool.hpp"
#include "files/pieces.hpp"
#include "vectors/distances.hpp"

namespace lance {

// Vectors at equal distances in memory.
struct VectorRows {
  const uint8_t* first;
  size_t stride;  // bytes from one vector to the next
  size_t num_vectors;
  const int64_t* chosen = nullptr;  // rows that are compared, ascending; null: all rows
  size_t num_chosen = 0;
  const uint8_t* validity = nullptr;  // a bit per row as in Arrow; null: all rows have vectors
  size_t first_bit = 0;
  const uint64_t* keys = nullptr;  // of the rows: of equal distances the smallest key comes first; null: row numbers
};

struct Found {
  Block rows;                   // int64: the rows of the first query, nearest first, then those of the next query, ...
  Block distances;              // float32, of the same rows
  std::vector<int64_t> counts;  // number of rows of each query
};

// The best rows of each query, among the rows that were added.
class Nearest {
 public:
  // `lower` is inclusive, `upper` exclusive. At most `most_rows` rows will be added.
  Nearest(const Comparison& comparison, size_t k, std::optional<float> lower, std::optional<float> upper,
          size_t most_rows);

  // Rows and chosen rows must exist. Rows whose distance is NaN are left out. Neither allocates nor throws.
  void add(const VectorRows& vectors) noexcept;

  Found found();

 private:
  struct Row {
    float distance;
    uint64_t key;
    int64_t number;

    // Whether the other row is nearer.
    bool operator<(const Row& other) const {
      return distance != other.distance ? distance < other.distance : key < other.key;
    }
  };

  void offer(size_t query, Row row) noexcept;

  const Comparison& comparison_;
  size_t k_;
  float lower_;
  std::vector<float> worst_;            // largest distance that a row may have to be kept, per query
  std::vector<std::vector<Row>> best_;  // heaps with the worst row on top
  std::vector<uint8_t> scratch_;
  std::vector<float> distances_;
};

// Returns the distances of all rows, as float32: first those of the first query, then those of the next query, ...
// Rows without a vector have NaN.
Block all_distances(const Comparison& comparison, const VectorRows& vectors);

// The vectors of a column of a file: pages in which one vector follows the other, without nulls.
struct PlainPages {
  PieceReader* file;
  size_t stride;                 // bytes of a vector
  std::vector<int64_t> starts;   // the first row of each page, and the number of rows
  std::vector<int64_t> offsets;  // of the pages in the file, in bytes
};

// Rows of a file, in any order, and the positions of their distances in the result.
struct RowsToCompare {
  const PlainPages* pages;
  Bytes rows;    // int64
  Bytes places;  // int64
};

// Returns the distances of `num_rows` rows of several files like `all_distances`, without a copy of the vectors.
// Returns nothing if a file is not mapped, or is shorter now than when it was opened.
std::optional<Block> distances_in_files(const Comparison& comparison, const std::vector<RowsToCompare>& parts,
                                        size_t num_rows);

}  // namespace lance
