// Lower bounds of sums of table entries, for 64 rows at once.
//
// A sum of table entries costs a lookup per sub-vector and row. Most rows of a partition are far from the query. To
// find them faster, the entries are rounded down to bytes, and newer x86 processors look up 64 bytes with one
// instruction. A row whose sum of rounded entries is too large is left out. For the others the caller computes the
// exact sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lance {

class LookupBounds {
 public:
  static constexpr size_t kRows = 64;  // rows of one call of `may_be_within`

  // `table` has 256 entries per sub-vector, and stays valid.
  LookupBounds(const float* table, size_t num_sub_vectors);

  // Whether this processor has the instructions, and the differences of the table's entries are finite.
  bool is_usable() const { return is_usable_; }

  // Sets the largest sum of interest. Rounds the entries for it, or keeps them if they still are precise enough.
  void set_limit(double limit);

  // Whether no sum of entries is within the limit.
  bool excludes_all() const { return excludes_all_; }

  // Returns a bit for each of the first `num_rows` rows, at most 64, that is clear if the sum of the row is larger than
  // the limit. The codes of a sub-vector begin `stride` bytes after those of the sub-vector before.
  uint64_t may_be_within(const uint8_t* codes, size_t stride, size_t num_rows) const;

 private:
  const float* table_;
  size_t num_sub_vectors_;
  bool is_usable_ = false;
  bool excludes_all_ = false;
  double least_ = 0;             // sum of the smallest entries of the sub-vectors
  double slack_ = 0;             // largest error of a sum in float32
  double rounded_for_ = -1;      // the limit that the entries are rounded for, less `least_`; -1 before
  uint16_t most_ = 0;            // largest sum of rounded entries of interest
  std::vector<float> smallest_;  // entry of each sub-vector
  std::vector<uint8_t> rounded_;
};

}  // namespace lance
