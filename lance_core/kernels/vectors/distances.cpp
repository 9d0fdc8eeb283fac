#include "vectors/distances.hpp"

#include <algorithm>
#include <cmath>

#include "vectors/widths.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LANCE_POPCOUNT __attribute__((target_clones("popcnt", "default")))
#else
#define LANCE_POPCOUNT
#endif
#define LANCE_INLINE inline __attribute__((always_inline))

namespace lance {
namespace {

constexpr size_t kLaneBytes = 64;
constexpr size_t kRowTile = 4;         // rows that are compared with one query at once
constexpr size_t kTransposedTile = 6;  // rows that are compared with one group of queries at once
// From this number on, the lanes of a register hold different queries instead of different dimensions.
constexpr size_t kFewQueries = 8;

template <class T>
constexpr size_t kLanes = kLaneBytes / sizeof(T);

template <class T, size_t kBytes>
struct Vector {
  typedef T Type __attribute__((vector_size(kBytes)));
};

// The lanes of `kLaneBytes`, in vectors of `kBytes`.
template <class T, size_t kBytes>
struct Lanes {
  using Full = typename Vector<T, kBytes>::Type;
  using Part = typename Vector<T, 16>::Type;
  static constexpr size_t kWidth = kBytes / sizeof(T);
  static constexpr size_t kNumVectors = kLaneBytes / kBytes;
};

// Sums of `rows[r] * query` or, if `kSquares`, of `(rows[r] - query)^2`.
template <size_t kBytes, bool kSquares, class T>
LANCE_INLINE void sum_tile(const uint8_t* const* rows, const T* query, size_t dimension, T* sums) {
  using L = Lanes<T, kBytes>;
  using Full = typename L::Full;
  using Part = typename L::Part;
  constexpr size_t kPart = sizeof(Part) / sizeof(T);
  Full total[kRowTile][L::kNumVectors] = {};
  size_t i = 0;
  for (; i + kLanes<T> <= dimension; i += kLanes<T>) {
    for (size_t v = 0; v < L::kNumVectors; ++v) {
      size_t at = i + v * L::kWidth;
      Full q;
      std::memcpy(&q, query + at, sizeof(q));
      for (size_t r = 0; r < kRowTile; ++r) {
        Full x;
        std::memcpy(&x, rows[r] + at * sizeof(T), sizeof(x));
        if constexpr (kSquares) {
          x -= q;
          total[r][v] += x * x;
        } else {
          total[r][v] += x * q;
        }
      }
    }
  }
  Part part[kRowTile];
  for (size_t r = 0; r < kRowTile; ++r) {
    Part quarters[4];
    std::memcpy(quarters, &total[r], sizeof(quarters));
    part[r] = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
  }
  for (; i + kPart <= dimension; i += kPart) {
    Part q;
    std::memcpy(&q, query + i, sizeof(q));
    for (size_t r = 0; r < kRowTile; ++r) {
      Part x;
      std::memcpy(&x, rows[r] + i * sizeof(T), sizeof(x));
      if constexpr (kSquares) {
        x -= q;
        part[r] += x * x;
      } else {
        part[r] += x * q;
      }
    }
  }
  for (size_t r = 0; r < kRowTile; ++r) {
    T sum = 0;
    for (size_t lane = 0; lane < kPart; ++lane) {
      sum += part[r][lane];
    }
    for (size_t j = i; j < dimension; ++j) {
      T x = load<T>(rows[r] + j * sizeof(T));
      if constexpr (kSquares) {
        x -= query[j];
        sum += x * x;
      } else {
        sum += x * query[j];
      }
    }
    sums[r] = sum;
  }
}

// Sums of each row and a group of queries that are stored dimension by dimension.
template <size_t kBytes, bool kSquares, class T>
LANCE_INLINE void sum_group(const uint8_t* const* rows, const T* group, size_t dimension, T* sums, size_t row_length) {
  using L = Lanes<T, kBytes>;
  using Full = typename L::Full;
  Full total[kTransposedTile][L::kNumVectors] = {};
  for (size_t i = 0; i < dimension; ++i) {
    Full q[L::kNumVectors];
    std::memcpy(q, group + i * kLanes<T>, sizeof(q));
    for (size_t r = 0; r < kTransposedTile; ++r) {
      T x = load<T>(rows[r] + i * sizeof(T));
      for (size_t v = 0; v < L::kNumVectors; ++v) {
        if constexpr (kSquares) {
          Full d = x - q[v];
          total[r][v] += d * d;
        } else {
          total[r][v] += x * q[v];
        }
      }
    }
  }
  for (size_t r = 0; r < kTransposedTile; ++r) {
    std::memcpy(sums + r * row_length, total[r], kLaneBytes);
  }
}

// Sums of one query after the other, at `sums[row * num_queries + query]`. The rows are a multiple of `kRowTile`.
template <size_t kBytes, bool kSquares, class T>
LANCE_INLINE void sum_each(const uint8_t* const* rows, size_t num_rows, const T* queries, size_t num_queries,
                           size_t dimension, T* sums) {
  for (size_t row = 0; row < num_rows; row += kRowTile) {
    for (size_t query = 0; query < num_queries; ++query) {
      T found[kRowTile];
      sum_tile<kBytes, kSquares>(rows + row, queries + query * dimension, dimension, found);
      for (size_t r = 0; r < kRowTile; ++r) {
        sums[(row + r) * num_queries + query] = found[r];
      }
    }
  }
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

#define LANCE_SUMS(T, NAME, SQUARES)                                                                                  \
  LANCE_BY_WIDTH(                                                                                                     \
      NAME##_each,                                                                                                    \
      (const uint8_t* const* rows, size_t num_rows, const T* queries, size_t num_queries, size_t dimension, T* sums), \
      (rows, num_rows, queries, num_queries, dimension, sums),                                                        \
      sum_each<kBytes, SQUARES>(rows, num_rows, queries, num_queries, dimension, sums))                               \
  LANCE_BY_WIDTH(                                                                                                     \
      NAME##_groups,                                                                                                  \
      (const uint8_t* const* rows, size_t num_rows, const T* queries, size_t row_length, size_t dimension, T* sums),  \
      (rows, num_rows, queries, row_length, dimension, sums),                                                         \
      sum_groups<kBytes, SQUARES>(rows, num_rows, queries, row_length, dimension, sums))
LANCE_SUMS(float, squares32, true)
LANCE_SUMS(float, products32, false)
LANCE_SUMS(double, squares64, true)
LANCE_SUMS(double, products64, false)
#undef LANCE_SUMS

LANCE_BY_WIDTH(lengths32, (const uint8_t* const* rows, size_t num_rows, size_t dimension, float* sums),
               (rows, num_rows, dimension, sums), sum_squares<kBytes>(rows, num_rows, dimension, sums))
LANCE_BY_WIDTH(lengths64, (const uint8_t* const* rows, size_t num_rows, size_t dimension, double* sums),
               (rows, num_rows, dimension, sums), sum_squares<kBytes>(rows, num_rows, dimension, sums))

LANCE_POPCOUNT void count_bits(const uint8_t* const* rows, size_t num_rows, const uint8_t* queries, size_t num_queries,
                               size_t dimension, float* distances) {
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t query = 0; query < num_queries; ++query) {
      const uint8_t* q = queries + query * dimension;
      uint64_t bits = 0;
      size_t i = 0;
      for (; i + 8 <= dimension; i += 8) {
        bits += static_cast<uint64_t>(__builtin_popcountll(load<uint64_t>(rows[row] + i) ^ load<uint64_t>(q + i)));
      }
      for (; i < dimension; ++i) {
        bits += static_cast<uint64_t>(__builtin_popcountll(static_cast<uint64_t>(rows[row][i] ^ q[i])));
      }
      distances[row * num_queries + query] = static_cast<float>(bits);
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

LANCE_MULTIVERSION void widen_uint8(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(from[i]);
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
      return 2;
    default:
      return 1;
  }
}

Comparison::Comparison(Bytes queries, size_t dimension, Element element, Metric metric)
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
  if (is_hamming) {
    queries_.assign(queries.data, queries.data + queries.size);
  } else if (element == Element::float64) {
    prepare<double>(queries);
  } else {
    prepare<float>(queries);
  }
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
  is_transposed_ = num_queries_ >= kFewQueries;
  if (!is_transposed_) {
    queries_.assign(queries.data, queries.data + queries.size);
    return;
  }
  row_length_ = round_up(num_queries_, kLanes<T>);
  lengths_.resize(metric_ == Metric::cosine ? row_length_ : 0);
  queries_.resize(row_length_ * dimension_ * sizeof(T));
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
  return sums + (is_widened ? kMostRows * dimension_ * 4 : 0);
}

template <class T>
void Comparison::compare_sums(const uint8_t* const* given, size_t num_rows, uint8_t* scratch,
                              float* distances) const noexcept {
  static_assert(kMostRows % kRowTile == 0 && kMostRows % kTransposedTile == 0);
  T* sums = reinterpret_cast<T*>(scratch);
  T* lengths = sums + kMostRows * row_length_;
  const uint8_t* rows[kMostRows];
  if (sizeof(T) == bytes_of(element_)) {
    std::copy(given, given + num_rows, rows);
  } else {
    float* widened = reinterpret_cast<float*>(lengths + kMostRows);
    for (size_t row = 0; row < num_rows; ++row) {
      widen(element_, given[row], dimension_, widened + row * dimension_);
      rows[row] = reinterpret_cast<const uint8_t*>(widened + row * dimension_);
    }
  }
  // A tile has more rows than are left: the last row is compared again, and the result is not used.
  size_t filled = round_up(num_rows, is_transposed_ ? kTransposedTile : kRowTile);
  std::fill(rows + num_rows, rows + filled, rows[num_rows - 1]);
  const T* queries = reinterpret_cast<const T*>(queries_.data());
  bool is_l2 = metric_ == Metric::l2;
  if constexpr (sizeof(T) == 4) {
    if (is_transposed_) {
      (is_l2 ? squares32_groups : products32_groups)(rows, filled, queries, row_length_, dimension_, sums);
    } else {
      (is_l2 ? squares32_each : products32_each)(rows, filled, queries, num_queries_, dimension_, sums);
    }
    if (metric_ == Metric::cosine) {
      lengths32(rows, num_rows, dimension_, lengths);
    }
  } else {
    if (is_transposed_) {
      (is_l2 ? squares64_groups : products64_groups)(rows, filled, queries, row_length_, dimension_, sums);
    } else {
      (is_l2 ? squares64_each : products64_each)(rows, filled, queries, num_queries_, dimension_, sums);
    }
    if (metric_ == Metric::cosine) {
      lengths64(rows, num_rows, dimension_, lengths);
    }
  }
  size_t num_sums = num_rows * row_length_;
  if (is_l2) {
    std::copy(sums, sums + num_sums, distances);
  } else if (metric_ == Metric::dot) {
    for (size_t i = 0; i < num_sums; ++i) {
      distances[i] = static_cast<float>(1 - sums[i]);
    }
  } else {
    for (size_t row = 0; row < num_rows; ++row) {
      double length = std::sqrt(static_cast<double>(lengths[row]));
      for (size_t query = 0; query < num_queries_; ++query) {
        double product = sums[row * row_length_ + query];
        distances[row * row_length_ + query] = static_cast<float>(1 - product / (length * lengths_[query]));
      }
    }
  }
}

void Comparison::compare(const uint8_t* const* rows, size_t num_rows, uint8_t* scratch,
                         float* distances) const noexcept {
  if (num_rows == 0) {
    return;
  }
  if (metric_ == Metric::hamming) {
    count_bits(rows, num_rows, queries_.data(), num_queries_, dimension_, distances);
  } else if (element_ == Element::float64) {
    compare_sums<double>(rows, num_rows, scratch, distances);
  } else {
    compare_sums<float>(rows, num_rows, scratch, distances);
  }
}

}  // namespace lance
