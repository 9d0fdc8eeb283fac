#include "vectors/nearest.hpp"

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

namespace {

// The address of a wanted vector, and the position of its distance in the result.
struct Wanted {
  const uint8_t* vector;
  size_t place;
};

void find_vectors(const RowsToCompare& part, const FileMap& map, size_t vector_bytes, size_t num_rows,
                  std::vector<Wanted>& wanted) {
  const PlainPages& pages = *part.pages;
  auto file_bytes = static_cast<int64_t>(pages.file->file_bytes());
  auto stride = static_cast<int64_t>(pages.stride);
  size_t n = part.rows.size / 8;
  if (pages.stride != vector_bytes || part.places.size != part.rows.size) {
    corrupt("vectors of %zu bytes instead of %zu, %zu rows", pages.stride, vector_bytes, n);
  }
  for (size_t i = 0; i < n; ++i) {
    auto row = load<int64_t>(part.rows.data + 8 * i);
    auto place = load<uint64_t>(part.places.data + 8 * i);
    if (row < 0 || row >= pages.starts.back() || place >= num_rows) {
      corrupt("row %lld of %lld", static_cast<long long>(row), static_cast<long long>(pages.starts.back()));
    }
    auto above = std::upper_bound(pages.starts.begin(), pages.starts.end(), row);
    auto page = static_cast<size_t>(above - pages.starts.begin()) - 1;
    row -= pages.starts[page];
    int64_t offset = pages.offsets[page];
    if (offset < 0 || offset > file_bytes || row >= (file_bytes - offset) / stride) {
      corrupt("vector %lld of a page at %lld", static_cast<long long>(row), static_cast<long long>(offset));
    }
    wanted.push_back({map.data() + offset + row * stride, place});
  }
}

// Comparisons of vectors in maps. All memory is there before they begin.
struct Comparing {
  const Comparison& comparison;
  const std::vector<Wanted>& wanted;
  float* all;
  size_t num_rows;
  std::vector<uint8_t> scratch;
  std::vector<float> distances;

  void run() noexcept {
    constexpr size_t kMost = Comparison::kMostRows;
    constexpr size_t kLine = 64;
    const uint8_t* rows[kMost];
    for (size_t start = 0; start < wanted.size(); start += kMost) {
      size_t count = std::min(kMost, wanted.size() - start);
      // The processor waits for many addresses at once.
      size_t ahead = std::min(wanted.size(), start + 2 * kMost);
      for (size_t i = start + count; i < ahead; ++i) {
        for (size_t byte = 0; byte < comparison.vector_bytes(); byte += kLine) {
          __builtin_prefetch(wanted[i].vector + byte);
        }
      }
      for (size_t i = 0; i < count; ++i) rows[i] = wanted[start + i].vector;
      comparison.compare(rows, count, scratch.data(), distances.data());
      for (size_t i = 0; i < count; ++i) {
        for (size_t query = 0; query < comparison.num_queries(); ++query) {
          all[query * num_rows + wanted[start + i].place] = distances[i * comparison.row_length() + query];
        }
      }
    }
  }
};

}  // namespace

std::optional<Block> distances_in_files(const Comparison& comparison, const std::vector<RowsToCompare>& parts,
                                        size_t num_rows) {
  std::vector<Wanted> wanted;
  wanted.reserve(num_rows);
  std::vector<MapRange> ranges;
  for (const RowsToCompare& part : parts) {
    const FileMap* map = part.pages->file->map_for(part.rows.size / 8);
    if (map == nullptr) {
      return std::nullopt;
    }
    ranges.push_back(map->range());
    find_vectors(part, *map, comparison.vector_bytes(), num_rows, wanted);
  }
  Block block(comparison.num_queries() * num_rows * 4);
  auto* all = reinterpret_cast<float*>(block.data());
  std::fill(all, all + comparison.num_queries() * num_rows, std::numeric_limits<float>::quiet_NaN());
  Comparing comparing{comparison,
                      wanted,
                      all,
                      num_rows,
                      std::vector<uint8_t>(comparison.scratch_bytes()),
                      std::vector<float>(Comparison::kMostRows * comparison.row_length())};
  auto run = [](void* given) { static_cast<Comparing*>(given)->run(); };
  bool is_read = GuardedCopies(std::move(ranges)).run(run, &comparing);
  for (const RowsToCompare& part : parts) is_read = is_read && part.pages->file->is_whole();
  return is_read ? std::optional<Block>(std::move(block)) : std::nullopt;
}

}  // namespace lance
