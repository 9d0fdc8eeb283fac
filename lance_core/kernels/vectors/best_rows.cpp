#include "vectors/best_rows.hpp"

#include <algorithm>

namespace lance {

namespace {

LANCE_MULTIVERSION void scale_all(float* sums, size_t n, float shift, float scale, float offset) {
  for (size_t i = 0; i < n; ++i) sums[i] = (sums[i] + shift) * scale + offset;
}

LANCE_MULTIVERSION void scale_each(float* sums, size_t n, float shift, const float* scales, const float* offsets,
                                   float share, float offset) {
  for (size_t i = 0; i < n; ++i) sums[i] = (sums[i] + shift) * scales[i] + (offsets[i] * share + offset);
}

// Whether a number is at most `limit`.
LANCE_MULTIVERSION bool has_at_most(const float* numbers, size_t n, float limit) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; ++i) found |= numbers[i] <= limit ? 1u : 0u;
  return found != 0;
}

}  // namespace

void BestRows::offer(float distance, uint64_t key) {
  if (!(distance <= limit_) || distance < lower_ || (is_bounded_ && !(distance < upper_)) || count_ == 0) {
    return;
  }
  Row row{distance, key};
  if (rows_.size() < count_) {
    rows_.push_back(row);
    std::push_heap(rows_.begin(), rows_.end());
  } else if (row < rows_.front()) {
    std::pop_heap(rows_.begin(), rows_.end());
    rows_.back() = row;
    std::push_heap(rows_.begin(), rows_.end());
  }
  if (rows_.size() == count_) {
    limit_ = rows_.front().distance;
  }
}

void BestRows::merge(const BestRows& other) {
  for (const Row& row : other.rows_) offer(row.distance, row.key);
}

bool BestRows::are_distinct() const {
  std::vector<uint64_t> keys;
  keys.reserve(rows_.size());
  for (const Row& row : rows_) keys.push_back(row.key);
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) == keys.end();
}

std::vector<BestRows::Row> BestRows::sorted() const {
  std::vector<Row> rows = rows_;
  std::sort(rows.begin(), rows.end());
  return rows;
}

void offer_rows(BestRows& best, const CodedRows& rows, const DistanceScale& scale, size_t start, size_t n,
                float* sums) {
  if (scale.row_scales != nullptr) {
    scale_each(sums, n, scale.shift, scale.row_scales + start, scale.row_offsets + start, scale.share, scale.offset);
  } else {
    scale_all(sums, n, scale.shift, scale.scale, scale.offset);
  }
  if (!has_at_most(sums, n, best.limit())) return;
  for (size_t i = 0; i < n; ++i) {
    if (sums[i] <= best.limit() && (rows.allowed == nullptr || rows.allowed[start + i] != 0)) {
      best.offer(sums[i], rows.keys[start + i]);
    }
  }
}

}  // namespace lance
