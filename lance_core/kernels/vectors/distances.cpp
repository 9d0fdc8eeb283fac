#include "vectors/distances.hpp"

#include <algorithm>
#include <cmath>

#include "vectors/sum_tiles.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LANCE_POPCOUNT __attribute__((target_clones("popcnt", "default")))
#else
#define LANCE_POPCOUNT
#endif

namespace lance {
namespace {

using namespace tiles;

// From this number on, the lanes of a register hold different queries instead of different dimensions.
constexpr size_t kFewQueries = 8;
constexpr size_t kFewOfBytes = 3;    // up to this number, converting bytes for each query costs less than memory
constexpr size_t kSomeQueries = 64;  // queries that are compared one by one in a call

// Rows of bytes that are converted where they are compared, for processors with vectors of 64 bytes.
LANCE_AVX512 void byte_squares_each(const uint8_t* const* rows, size_t num_rows, const float* const* queries,
                                    size_t num_queries, size_t dimension, float* sums, Places places) {
  SumEach<kLaneBytes, true>::run<float, uint8_t>(rows, num_rows, queries, num_queries, dimension, sums, places);
}

LANCE_AVX512 void byte_products_each(const uint8_t* const* rows, size_t num_rows, const float* const* queries,
                                     size_t num_queries, size_t dimension, float* sums, Places places) {
  SumEach<kLaneBytes, false>::run<float, uint8_t>(rows, num_rows, queries, num_queries, dimension, sums, places);
}

// Sums of all groups of queries. The rows are a multiple of `kTransposedTile`.
template <size_t kBytes, bool kSquares, class T>
LANCE_INLINE void sum_groups(const uint8_t* const* rows, size_t num_rows, const T* groups, size_t row_length,
                             size_t dimension, T* sums) {
  for (size_t row = 0; row < num_rows; row += kTransposedTile) {
    for (size_t first = 0; first < row_length; first += kLanes<T>) {
      sum_group<kBytes, kSquares>(rows + row, groups + first * dimension, dimension, sums + row * row_length + first,
                                  row_length);
    }
  }
}

// Sums of the squares of each row. The rows are a multiple of `kRowTile`.
template <size_t kBytes, class T>
LANCE_INLINE void sum_squares(const uint8_t* const* rows, size_t num_rows, size_t dimension, T* sums) {
  using L = Lanes<T, kBytes>;
  using Full = typename L::Full;
  constexpr size_t kSums = 2 * L::kNumVectors;
  for (size_t row = 0; row < num_rows; ++row) {
    Full total[kSums] = {};
    size_t i = 0;
    for (; i + 2 * kLanes<T> <= dimension; i += 2 * kLanes<T>) {
      Full x[kSums];
      std::memcpy(x, rows[row] + i * sizeof(T), sizeof(x));
      for (size_t v = 0; v < kSums; ++v) {
        total[v] += x[v] * x[v];
      }
    }
    T sum = 0;
    for (size_t v = 0; v < L::kNumVectors; ++v) {
      total[v] += total[v + L::kNumVectors];
      for (size_t lane = 0; lane < L::kWidth; ++lane) {
        sum += total[v][lane];
      }
    }
    for (; i < dimension; ++i) {
      T x = load<T>(rows[row] + i * sizeof(T));
      sum += x * x;
    }
    sums[row] = sum;
  }
}

#define LANCE_EACH(T, NAME, SQUARES)                                                                        \
  LANCE_BY_WIDTH(NAME,                                                                                      \
                 (const uint8_t* const* rows, size_t num_rows, const T* const* queries, size_t num_queries, \
                  size_t dimension, T* sums, Places places),                                                \
                 (rows, num_rows, queries, num_queries, dimension, sums, places),                           \
                 SumEach<kBytes, SQUARES>::run(rows, num_rows, queries, num_queries, dimension, sums, places))
LANCE_EACH(float, squares32_each, true)
LANCE_EACH(float, products32_each, false)
LANCE_EACH(double, squares64_each, true)
LANCE_EACH(double, products64_each, false)
#undef LANCE_EACH

#define LANCE_GROUPS(T, NAME, SQUARES)                                                                               \
  LANCE_BY_WIDTH(                                                                                                    \
      NAME,                                                                                                          \
      (const uint8_t* const* rows, size_t num_rows, const T* queries, size_t row_length, size_t dimension, T* sums), \
      (rows, num_rows, queries, row_length, dimension, sums),                                                        \
      sum_groups<kBytes, SQUARES>(rows, num_rows, queries, row_length, dimension, sums))
LANCE_GROUPS(float, squares32_groups, true)
LANCE_GROUPS(float, products32_groups, false)
LANCE_GROUPS(double, squares64_groups, true)
LANCE_GROUPS(double, products64_groups, false)
#undef LANCE_GROUPS

LANCE_BY_WIDTH(lengths32, (const uint8_t* const* rows, size_t num_rows, size_t dimension, float* sums),
               (rows, num_rows, dimension, sums), sum_squares<kBytes>(rows, num_rows, dimension, sums))
LANCE_BY_WIDTH(lengths64, (const uint8_t* const* rows, size_t num_rows, size_t dimension, double* sums),
               (rows, num_rows, dimension, sums), sum_squares<kBytes>(rows, num_rows, dimension, sums))

LANCE_POPCOUNT void count_bits(const uint8_t* const* rows, size_t num_rows, const uint8_t* const* queries,
                               size_t num_queries, size_t dimension, float* distances, Places places) {
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t query = 0; query < num_queries; ++query) {
      const uint8_t* q = queries[query];
      uint64_t bits = 0;
      size_t i = 0;
      for (; i + 8 <= dimension; i += 8) {
        bits += static_cast<uint64_t>(__builtin_popcountll(load<uint64_t>(rows[row] + i) ^ load<uint64_t>(q + i)));
      }
      for (; i < dimension; ++i) {
        bits += static_cast<uint64_t>(__builtin_popcountll(static_cast<uint64_t>(rows[row][i] ^ q[i])));
      }
      distances[row * places.row_step + query * places.query_step] = static_cast<float>(bits);
    }
  }
}

LANCE_MULTIVERSION void widen_float16(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t half = load<uint16_t>(from + 2 * i);
    uint32_t bits = (half & 0x7fffu) << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    value *= 0x1p112f;  // moves the exponent, also of subnormal numbers
    uint32_t finite;
    std::memcpy(&finite, &value, 4);
    uint32_t wide = (half & 0x7c00u) == 0x7c00u ? bits | 0x7f800000u : finite;
    wide |= (half & 0x8000u) << 16;
    std::memcpy(to + i, &wide, 4);
  }
}

LANCE_MULTIVERSION void widen_bfloat16(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t wide = static_cast<uint32_t>(load<uint16_t>(from + 2 * i)) << 16;
    std::memcpy(to + i, &wide, 4);
  }
}

LANCE_AVX512 void widen_many_bytes(const uint8_t* from, size_t n, float* to) {
  size_t i = 0;
  for (; i + kLanes<float> <= n; i += kLanes<float>) {
    Wide<float> values = load_bytes(from + i);
    std::memcpy(to + i, &values, sizeof values);
  }
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

LANCE_MULTIVERSION void widen_some_bytes(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(from[i]);
  }
}

void widen_uint8(const uint8_t* from, size_t n, float* to) {
  // Compilers convert bytes in many steps if they have to find the vectors themselves.
  return vector_bytes() == kLaneBytes ? widen_many_bytes(from, n, to) : widen_some_bytes(from, n, to);
}

LANCE_MULTIVERSION void widen_uint16(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(load<uint16_t>(from + 2 * i));
  }
}

LANCE_MULTIVERSION void widen_int8(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(static_cast<int8_t>(from[i]));
  }
}

void widen(Element element, const uint8_t* from, size_t n, float* to) {
  switch (element) {
    case Element::float16:
      return widen_float16(from, n, to);
    case Element::bfloat16:
      return widen_bfloat16(from, n, to);
    case Element::uint8:
      return widen_uint8(from, n, to);
    case Element::uint16:
      return widen_uint16(from, n, to);
    default:
      return widen_int8(from, n, to);
  }
}

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

size_t bytes_of(Element element) {
  switch (element) {
    case Element::float64:
      return 8;
    case Element::float32:
      return 4;
    case Element::float16:
    case Element::bfloat16:
    case Element::uint16:
      return 2;
    default:
      return 1;
  }
}

// The queries of a call, and the positions of their distances.
struct Comparison::Target {
  float* distances;
  const uint32_t* queries;  // their numbers; null: all queries
  size_t num_queries;
  Places places;
  size_t num_distances;  // up to the last one that is set

  size_t number(size_t query) const { return queries == nullptr ? query : queries[query]; }
};

Comparison::Comparison(Bytes queries, size_t dimension, Element element, Metric metric, bool one_by_one)
    : dimension_(dimension), element_(element), metric_(metric) {
  constexpr size_t kMostDimensions = size_t{1} << 24;
  bool is_hamming = metric == Metric::hamming;
  if (dimension == 0 || dimension > kMostDimensions || (is_hamming && element != Element::uint8)) {
    corrupt("vectors of %zu elements cannot be compared", dimension);
  }
  size_t width = is_hamming ? 1 : element == Element::float64 ? 8 : 4;
  if (queries.size == 0 || queries.size % (dimension * width) != 0) {
    corrupt("%zu bytes are no queries of %zu elements", queries.size, dimension);
  }
  num_queries_ = queries.size / (dimension * width);
  row_length_ = num_queries_;
  is_transposed_ = !is_hamming && !one_by_one && num_queries_ >= kFewQueries;
  if (is_hamming) {
    keep(queries);
  } else if (element == Element::float64) {
    prepare<double>(queries);
  } else {
    prepare<float>(queries);
  }
}

void Comparison::keep(Bytes queries) {
  queries_ = Block(queries.size);
  copy_bytes(queries_.data(), queries.data, queries.size);
}

template <class T>
void Comparison::prepare(Bytes queries) {
  for (size_t query = 0; metric_ == Metric::cosine && query < num_queries_; ++query) {
    double sum = 0;
    for (size_t i = 0; i < dimension_; ++i) {
      double value = load<T>(queries.data + (query * dimension_ + i) * sizeof(T));
      sum += value * value;
    }
    lengths_.push_back(std::sqrt(sum));
  }
  if (!is_transposed_) {
    keep(queries);
    return;
  }
  row_length_ = round_up(num_queries_, kLanes<T>);
  lengths_.resize(metric_ == Metric::cosine ? row_length_ : 0);
  queries_ = Block(row_length_ * dimension_ * sizeof(T));
  std::fill(queries_.data(), queries_.data() + queries_.size(), 0);
  for (size_t query = 0; query < num_queries_; ++query) {
    uint8_t* group = queries_.data() + query / kLanes<T> * kLaneBytes * dimension_;
    for (size_t i = 0; i < dimension_; ++i) {
      std::memcpy(group + i * kLaneBytes + query % kLanes<T> * sizeof(T),
                  queries.data + (query * dimension_ + i) * sizeof(T), sizeof(T));
    }
  }
}

size_t Comparison::scratch_bytes() const {
  if (metric_ == Metric::hamming) {
    return 0;
  }
  bool is_wide = element_ == Element::float64;
  size_t sums = kMostRows * (row_length_ + 1) * (is_wide ? 8 : 4);
  bool is_widened = !is_wide && element_ != Element::float32;
  return kLaneBytes + sums + (is_widened ? kMostRows * round_up(dimension_, kLanes<float>) * 4 : 0);
}

template <class T>
void Comparison::compare_sums(const uint8_t* const* given, size_t num_rows, const Target& target,
                              uint8_t* scratch) const noexcept {
  static_assert(kMostRows % kRowTile == 0 && kMostRows % kTransposedTile == 0);
  // Vectors that cross lines of the cache are written and read slowly.
  scratch = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(scratch), kLaneBytes));
  size_t padded = round_up(dimension_, kLanes<float>);
  bool is_widened = sizeof(T) != bytes_of(element_);
  T* sums = reinterpret_cast<T*>(scratch) + (is_widened ? kMostRows * padded : 0);
  T* lengths = sums + kMostRows * row_length_;
  const uint8_t* rows[kMostRows];
  bool is_l2 = metric_ == Metric::l2;
  constexpr bool is_float = sizeof(T) == 4;
  // For few queries, bytes are converted where they are compared. Cosine needs the lengths of the rows, too.
  bool are_bytes = is_float && element_ == Element::uint8 && !is_transposed_ && metric_ != Metric::cosine &&
                   target.num_queries <= kFewOfBytes && lance::vector_bytes() == kLaneBytes;
  // A tile has more rows than are left: the last row is compared again, and the result is not used.
  size_t filled = round_up(num_rows, is_transposed_ ? kTransposedTile : kRowTile);
  const uint8_t* const* compared = rows;
  if (are_bytes || !is_widened) {
    if (filled == num_rows) {
      compared = given;
    } else {
      std::copy(given, given + num_rows, rows);
    }
  } else {
    float* widened = reinterpret_cast<float*>(scratch);
    for (size_t row = 0; row < num_rows; ++row) {
      widen(element_, given[row], dimension_, widened + row * padded);
      rows[row] = reinterpret_cast<const uint8_t*>(widened + row * padded);
    }
  }
  std::fill(rows + num_rows, rows + filled, rows[num_rows - 1]);
  const T* queries = reinterpret_cast<const T*>(queries_.data());
  auto groups = [&](auto... arguments) {
    if constexpr (is_float) {
      (is_l2 ? squares32_groups : products32_groups)(arguments...);
    } else {
      (is_l2 ? squares64_groups : products64_groups)(arguments...);
    }
  };
  auto each = [&](auto... arguments) {
    if constexpr (is_float) {
      if (are_bytes) return (is_l2 ? byte_squares_each : byte_products_each)(arguments...);
      (is_l2 ? squares32_each : products32_each)(arguments...);
    } else {
      (is_l2 ? squares64_each : products64_each)(arguments...);
    }
  };
  if (is_transposed_) {
    groups(compared, filled, queries, row_length_, dimension_, sums);
  }
  const T* some[kSomeQueries];
  for (size_t first = 0; !is_transposed_ && first < target.num_queries; first += kSomeQueries) {
    size_t count = std::min(kSomeQueries, target.num_queries - first);
    for (size_t i = 0; i < count; ++i) some[i] = queries + target.number(first + i) * dimension_;
    each(compared, filled, some, count, dimension_, sums + first * target.places.query_step, target.places);
  }
  float* distances = target.distances;
  if (is_l2 || metric_ == Metric::product) {
    std::copy(sums, sums + target.num_distances, distances);
  } else if (metric_ == Metric::dot) {
    for (size_t i = 0; i < target.num_distances; ++i) {
      distances[i] = static_cast<float>(1 - sums[i]);
    }
  } else {
    if constexpr (is_float) {
      lengths32(compared, num_rows, dimension_, lengths);
    } else {
      lengths64(compared, num_rows, dimension_, lengths);
    }
    for (size_t row = 0; row < num_rows; ++row) {
      double length = std::sqrt(static_cast<double>(lengths[row]));
      for (size_t query = 0; query < target.num_queries; ++query) {
        size_t at = row * target.places.row_step + query * target.places.query_step;
        distances[at] = static_cast<float>(1 - sums[at] / (length * lengths_[target.number(query)]));
      }
    }
  }
}

void Comparison::compare_with(const uint8_t* const* rows, size_t num_rows, const Target& target,
                              uint8_t* scratch) const noexcept {
  if (num_rows == 0) {
    return;
  }
  if (metric_ == Metric::hamming) {
    const uint8_t* some[kSomeQueries];
    for (size_t first = 0; first < target.num_queries; first += kSomeQueries) {
      size_t count = std::min(kSomeQueries, target.num_queries - first);
      for (size_t i = 0; i < count; ++i) some[i] = queries_.data() + target.number(first + i) * dimension_;
      count_bits(rows, num_rows, some, count, dimension_, target.distances + first * target.places.query_step,
                 target.places);
    }
  } else if (element_ == Element::float64) {
    compare_sums<double>(rows, num_rows, target, scratch);
  } else {
    compare_sums<float>(rows, num_rows, target, scratch);
  }
}

void Comparison::compare(const uint8_t* const* rows, size_t num_rows, uint8_t* scratch,
                         float* distances) const noexcept {
  compare_with(rows, num_rows, {distances, nullptr, num_queries_, {row_length_, 1}, num_rows * row_length_}, scratch);
}

void Comparison::compare_each(const uint8_t* const* rows, size_t num_rows, const uint32_t* queries, size_t num_queries,
                              uint8_t* scratch, float* distances) const noexcept {
  compare_with(rows, num_rows, {distances, queries, num_queries, {1, kMostRows}, num_queries * kMostRows}, scratch);
}

}  // namespace lance
