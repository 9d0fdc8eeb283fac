#include "search/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lance {
namespace {

bool is_set(const uint8_t* bits, size_t place) { return (bits[place / 8] >> (place % 8) & 1) != 0; }

// Calls `each(numbers, addresses, count)` for blocks of rows that have a vector.
template <class Each>
void walk_rows(const VectorRows& vectors, Each each) {
  size_t count = vectors.chosen != nullptr ? vectors.num_chosen : vectors.num_vectors;
  int64_t numbers[Comparison::kMostRows];
  const uint8_t* addresses[Comparison::kMostRows];
  size_t filled = 0;
  for (size_t i = 0; i < count; ++i) {
    auto row = vectors.chosen != nullptr ? static_cast<size_t>(vectors.chosen[i]) : i;
    if (vectors.validity != nullptr && !is_set(vectors.validity, vectors.first_bit + row)) {
      continue;
    }
    numbers[filled] = static_cast<int64_t>(row);
    addresses[filled++] = vectors.first + row * vectors.stride;
    if (filled == Comparison::kMostRows) {
      each(numbers, addresses, filled);
      filled = 0;
    }
  }
  if (filled != 0) {
    each(numbers, addresses, filled);
  }
}

}  // namespace

Nearest::Nearest(const Comparison& comparison, size_t k, std::optional<float> lower, std::optional<float> upper,
                 size_t most_rows)
    : comparison_(comparison), k_(std::min(k, most_rows)), lower_(-std::numeric_limits<float>::infinity()) {
  float most = std::numeric_limits<float>::infinity();
  if (lower) {
    lower_ = *lower;
  }
  if (upper) {  // no distance is less than -infinity
    most = *upper > -most ? std::nextafter(*upper, -most) : std::numeric_limits<float>::quiet_NaN();
  }
  worst_.assign(comparison.num_queries(), most);
  best_.resize(comparison.num_queries());
  for (std::vector<Row>& heap : best_) {
    heap.reserve(k_);
  }
  scratch_.resize(comparison.scratch_bytes());
  distances_.resize(Comparison::kMostRows * comparison.row_length());
}

void Nearest::add(const VectorRows& vectors) noexcept {
  if (k_ == 0) {
    return;
  }
  size_t num_queries = comparison_.num_queries();
  walk_rows(vectors, [&](const int64_t* numbers, const uint8_t* const* addresses, size_t count) {
    comparison_.compare(addresses, count, scratch_.data(), distances_.data());
    for (size_t i = 0; i < count; ++i) {
      const float* distances = distances_.data() + i * comparison_.row_length();
      for (size_t query = 0; query < num_queries; ++query) {
        if (distances[query] <= worst_[query] && distances[query] >= lower_) {  // never true for NaN
          auto number = static_cast<size_t>(numbers[i]);
          offer(query, {distances[query], vectors.keys != nullptr ? vectors.keys[number] : number, numbers[i]});
        }
      }
    }
  });
}

void Nearest::offer(size_t query, Row row) noexcept {
  std::vector<Row>& heap = best_[query];
  if (heap.size() == k_) {
    if (!(row < heap.front())) {
      return;
    }
    std::pop_heap(heap.begin(), heap.end());
    heap.back() = row;
  } else {
    heap.push_back(row);  // within the reserved memory
  }
  std::push_heap(heap.begin(), heap.end());
  if (heap.size() == k_) {
    worst_[query] = heap.front().distance;
  }
}

Found Nearest::found() {
  Found found;
  size_t total = 0;
  for (std::vector<Row>& heap : best_) {
    std::sort_heap(heap.begin(), heap.end());
    found.counts.push_back(static_cast<int64_t>(heap.size()));
    total += heap.size();
  }
  found.rows = Block(total * 8);
  found.distances = Block(total * 4);
  size_t at = 0;
  for (const std::vector<Row>& heap : best_) {
    for (const Row& row : heap) {
      store<int64_t>(found.rows.data() + 8 * at, row.number);
      store<float>(found.distances.data() + 4 * at, row.distance);
      ++at;
    }
  }
  return found;
}

Block all_distances(const Comparison& comparison, const VectorRows& vectors) {
  size_t num_rows = vectors.num_vectors, num_queries = comparison.num_queries();
  Block block(num_queries * num_rows * 4);
  auto* all = reinterpret_cast<float*>(block.data());
  std::fill(all, all + num_queries * num_rows, std::numeric_limits<float>::quiet_NaN());
  std::vector<uint8_t> scratch(comparison.scratch_bytes());
  std::vector<float> distances(Comparison::kMostRows * comparison.row_length());
  walk_rows(vectors, [&](const int64_t* numbers, const uint8_t* const* addresses, size_t count) {
    comparison.compare(addresses, count, scratch.data(), distances.data());
    for (size_t i = 0; i < count; ++i) {
      for (size_t query = 0; query < num_queries; ++query) {
        all[query * num_rows + static_cast<size_t>(numbers[i])] = distances[i * comparison.row_length() + query];
      }
    }
  });
  return block;
}

}  // namespace lance
