// The nearest rows among rows that arrive in any order.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/common.hpp"

namespace lance {

// The rows with the smallest distances, at most `count`. Of equal distances the smaller keys win. Distances that are
// NaN or outside [lower, upper) never enter.
class BestRows {
 public:
  struct Row {
    float distance;
    uint64_t key;
    bool operator<(const Row& other) const {
      return distance < other.distance || (distance == other.distance && key < other.key);
    }
  };

  explicit BestRows(size_t count, float lower = -std::numeric_limits<float>::infinity(),
                    float upper = std::numeric_limits<float>::infinity(), bool is_bounded = false)
      : count_(count), lower_(lower), upper_(upper), is_bounded_(is_bounded), limit_(upper) {}

  // A row with a larger distance cannot enter. (A row with this distance may enter.)
  float limit() const { return limit_; }
  // A row with a smaller distance cannot enter.
  float lower() const { return lower_; }
  size_t size() const { return rows_.size(); }

  void offer(float distance, uint64_t key);
  // Offers all rows of another collection.
  void merge(const BestRows& other);
  // Whether no two of the rows have the same key.
  bool are_distinct() const;
  // The rows, nearest first.
  std::vector<Row> sorted() const;

 private:
  size_t count_;
  float lower_, upper_;
  bool is_bounded_;  // whether `upper` excludes itself
  float limit_;
  std::vector<Row> rows_;  // a heap with the farthest row first
};

// Keys of the rows of a partition whose distances a kernel computes.
struct CodedRows {
  size_t size = 0;
  const uint64_t* keys = nullptr;
  const uint8_t* allowed = nullptr;  // one flag per row; null allows all
};

// Distances from sums that a kernel computes: `(sum + shift) * scale + offset`. Rows may have their own scales instead,
// and offsets of which `share` times is added to the common one.
struct DistanceScale {
  float shift = 0;
  float scale = 1;
  float offset = 0;
  float share = 1;
  const float* row_scales = nullptr;
  const float* row_offsets = nullptr;
};

// Offers the rows [start, start + n) with the distances of their sums. Overwrites `sums`.
void offer_rows(BestRows& best, const CodedRows& rows, const DistanceScale& scale, size_t start, size_t n, float* sums);

}  // namespace lance
