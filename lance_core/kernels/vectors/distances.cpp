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
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace lance {
namespace {

constexpr size_t kLaneBytes = 64;
constexpr size_t kRowTile = 4;         // rows that are compared with one query at once
constexpr size_t kTransposedTile = 6;  // rows that are compared with one group of queries at once
// From this number on, the lanes of a register hold different queries instead of different dimensions.
constexpr size_t kFewQueries = 8;
constexpr size_t kFewOfBytes = 3;    // up to this number, converting bytes for each query costs less than memory
constexpr size_t kSomeQueries = 64;  // queries that are compared one by one in a call

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

// Where the sums of rows and queries are.
struct Places {
  size_t row_step, query_step;  // elements from the sum of a row to that of the next row, and of the next query
};

// The wide vectors of AVX-512, by blocks of 16 bytes.
template <class T>
using Wide = typename Vector<T, kLaneBytes>::Type;
template <class T>
using Block16 = typename Vector<T, 16>::Type;

// Two vectors as one.
LANCE_INLINE Vector<float, 32>::Type joined(const Vector<float, 16>::Type& a, const Vector<float, 16>::Type& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}
LANCE_INLINE Vector<double, 32>::Type joined(const Vector<double, 16>::Type& a, const Vector<double, 16>::Type& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3);
}
LANCE_INLINE Wide<float> joined(const Vector<float, 32>::Type& a, const Vector<float, 32>::Type& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
LANCE_INLINE Wide<double> joined(const Vector<double, 32>::Type& a, const Vector<double, 32>::Type& b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

template <class To, class From>
LANCE_INLINE To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// The blocks with even numbers of two vectors, or those with odd numbers.
template <bool kOdd, class V>
LANCE_INLINE V every_second_block(const V& first, const V& second) {
  using W = Wide<double>;
  W a = as<W>(first), b = as<W>(second);
  if constexpr (kOdd) {
    return as<V>(__builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15));
  } else {
    return as<V>(__builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13));
  }
}

// Block `k` of the result is the sum of the blocks of `totals[k]`: (first + second) + (third + fourth).
template <class V>
LANCE_INLINE V add_blocks(const V* totals) {
  V pairs[2];
  for (size_t k = 0; k < 2; ++k) {
    const V *a = totals + 2 * k, *b = a + 1;
    pairs[k] = every_second_block<false>(*a, *b) + every_second_block<true>(*a, *b);
  }
  return every_second_block<false>(pairs[0], pairs[1]) + every_second_block<true>(pairs[0], pairs[1]);
}

// Lane `r` of block `k` of the result is the sum of the lanes of block `k` of `parts[r]`, one after the other.
LANCE_INLINE void add_lanes(const Wide<float>* parts, float* sums) {
  using V = Wide<float>;
  using W = Wide<double>;
  W halves[2][2];  // [first or last two lanes][first or last two parts]
  for (size_t k = 0; k < 2; ++k) {
    const V *a = parts + 2 * k, *b = a + 1;
    halves[0][k] = as<W>(__builtin_shufflevector(*a, *b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29));
    halves[1][k] = as<W>(__builtin_shufflevector(*a, *b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31));
  }
  V lanes[4];
  for (size_t k = 0; k < 2; ++k) {
    lanes[2 * k] = as<V>(__builtin_shufflevector(halves[k][0], halves[k][1], 0, 8, 2, 10, 4, 12, 6, 14));
    lanes[2 * k + 1] = as<V>(__builtin_shufflevector(halves[k][0], halves[k][1], 1, 9, 3, 11, 5, 13, 7, 15));
  }
  V sum = ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3];
  std::memcpy(sums, &sum, sizeof sum);
}

LANCE_INLINE void add_lanes(const Wide<double>* parts, double* sums) {
  for (size_t half = 0; half < 2; ++half) {
    const auto &a = parts[2 * half], &b = parts[2 * half + 1];
    auto sum = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
               __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    for (size_t k = 0; k < kRowTile; ++k) {
      sums[kRowTile * k + 2 * half] = sum[2 * static_cast<int>(k)];
      sums[kRowTile * k + 2 * half + 1] = sum[2 * static_cast<int>(k) + 1];
    }
  }
}

template <bool kSquares, class V>
LANCE_INLINE void add_terms(V& total, const V& x, const V& q) {
  if constexpr (kSquares) {
    V difference = x - q;
    total += difference * difference;
  } else {
    total += x * q;
  }
}

// Lane 0 of each block of the result is the sum of the lanes of that block, one after the other.
LANCE_INLINE Wide<float> add_lanes(const Wide<float>& part) {
  auto second = __builtin_shufflevector(part, part, 1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13);
  auto third = __builtin_shufflevector(part, part, 2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14);
  auto fourth = __builtin_shufflevector(part, part, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15);
  return ((part + second) + third) + fourth;
}

LANCE_INLINE Wide<double> add_lanes(const Wide<double>& part) {
  return part + __builtin_shufflevector(part, part, 1, 1, 3, 3, 5, 5, 7, 7);
}

#if defined(__x86_64__) && defined(__GNUC__)
LANCE_AVX512 LANCE_INLINE Wide<float> load_bytes(const uint8_t* from) {
  __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return as<Wide<float>>(_mm512_cvtepi32_ps(bytes));
}
#else
LANCE_INLINE Wide<float> load_bytes(const uint8_t* from) {
  Wide<float> to;
  for (size_t i = 0; i < kLanes<float>; ++i) to[i] = static_cast<float>(from[i]);
  return to;
}
#endif

// Loads as many elements as `to` has lanes. Bytes become numbers.
template <class Element, class T>
LANCE_AVX512 LANCE_INLINE void load_elements(Wide<T>& to, const uint8_t* from) {
  if constexpr (sizeof(Element) == sizeof(T)) {
    std::memcpy(&to, from, sizeof to);
  } else {
    to = load_bytes(from);
  }
}

// The first elements of a block of 16 bytes, at most as many as it has lanes. The other lanes are 0: sums are always
// of vectors, because compilers round the terms of sums of single elements in some loops and not in others.
template <class Element, class T>
LANCE_AVX512 LANCE_INLINE Block16<T> load_block(const uint8_t* from, size_t count) {
  constexpr size_t kPart = sizeof(Block16<T>) / sizeof(T);
  Block16<T> to = {};
  if (sizeof(Element) == sizeof(T) && count >= kPart) {
    std::memcpy(&to, from, sizeof to);
  } else {
    for (size_t i = 0; i < kPart; ++i)
      to[i] = i < count ? static_cast<T>(load<Element>(from + i * sizeof(Element))) : 0;
  }
  return to;
}

template <class T>
LANCE_AVX512 LANCE_INLINE Block16<T> load_block(const T* from, size_t count) {
  return load_block<T, T>(reinterpret_cast<const uint8_t*>(from), count);
}

// The sums of `sum_tile` with vectors of 64 bytes.
template <bool kSquares, class Element, class T>
LANCE_AVX512 LANCE_INLINE void sum_wide_tile(const uint8_t* const* rows, const T* query, size_t dimension, T* sums) {
  static_assert(kRowTile == 4);
  using V = Wide<T>;
  using Part = Block16<T>;
  constexpr size_t kPart = sizeof(Part) / sizeof(T);
  V total[kRowTile] = {};
  size_t i = 0;
  for (; i + kLanes<T> <= dimension; i += kLanes<T>) {
    V q;
    std::memcpy(&q, query + i, sizeof q);
    for (size_t r = 0; r < kRowTile; ++r) {
      V x;
      load_elements<Element, T>(x, rows[r] + i * sizeof(Element));
      add_terms<kSquares>(total[r], x, q);
    }
  }
  V part = add_blocks(total);  // a block per row
  for (; i < dimension; i += kPart) {
    Part q = load_block(query + i, dimension - i), x[kRowTile];
    for (size_t r = 0; r < kRowTile; ++r) {
      x[r] = load_block<Element, T>(rows[r] + i * sizeof(Element), dimension - i);
    }
    add_terms<kSquares>(part, joined(joined(x[0], x[1]), joined(x[2], x[3])), joined(joined(q, q), joined(q, q)));
  }
  V found = add_lanes(part);
  for (size_t r = 0; r < kRowTile; ++r) sums[r] = found[kPart * r];
}

// The sums of `sum_wide_tile` for up to four queries, in the same order. There are four pointers to queries.
template <bool kSquares, class T>
LANCE_AVX512 LANCE_INLINE void sum_square_tile(const uint8_t* const* rows, const T* const* queries, size_t count,
                                               size_t dimension, T* sums, Places places) {
  constexpr size_t kQueries = 4;
  using V = Wide<T>;
  using Part = Block16<T>;
  constexpr size_t kPart = sizeof(Part) / sizeof(T);
  V total[kRowTile][kQueries] = {};
  size_t i = 0;
  for (; i + kLanes<T> <= dimension; i += kLanes<T>) {
    V q[kQueries];
    for (size_t k = 0; k < kQueries; ++k) std::memcpy(&q[k], queries[k] + i, sizeof(V));
    for (size_t r = 0; r < kRowTile; ++r) {
      V x;
      std::memcpy(&x, rows[r] + i * sizeof(T), sizeof x);
      for (size_t k = 0; k < kQueries; ++k) add_terms<kSquares>(total[r][k], x, q[k]);
    }
  }
  V parts[kRowTile];  // a block per query
  for (size_t r = 0; r < kRowTile; ++r) parts[r] = add_blocks(total[r]);
  for (; i < dimension; i += kPart) {
    Part q[kQueries];
    for (size_t k = 0; k < kQueries; ++k) q[k] = load_block(queries[k] + i, dimension - i);
    V all = joined(joined(q[0], q[1]), joined(q[2], q[3]));
    for (size_t r = 0; r < kRowTile; ++r) {
      Part x = load_block<T, T>(rows[r] + i * sizeof(T), dimension - i);
      add_terms<kSquares>(parts[r], joined(joined(x, x), joined(x, x)), all);
    }
  }
  alignas(kLaneBytes) T found[kQueries * kRowTile];
  add_lanes(parts, found);
  for (size_t k = 0; k < count; ++k) {
    for (size_t r = 0; r < kRowTile; ++r) {
      sums[r * places.row_step + k * places.query_step] = found[k * kRowTile + r];
    }
  }
}

// Sums of the queries one by one: the sum of a row and a query is the same whatever the other rows and queries are.
// The rows are a multiple of `kRowTile`.
template <size_t kBytes, bool kSquares>
struct SumEach {
  template <class T>
  static LANCE_INLINE void run(const uint8_t* const* rows, size_t num_rows, const T* const* queries, size_t num_queries,
                               size_t dimension, T* sums, Places places) {
    for (size_t row = 0; row < num_rows; row += kRowTile) {
      for (size_t query = 0; query < num_queries; ++query) {
        T found[kRowTile];
        sum_tile<kBytes, kSquares>(rows + row, queries[query], dimension, found);
        T* to = sums + row * places.row_step + query * places.query_step;
        for (size_t r = 0; r < kRowTile; ++r) to[r * places.row_step] = found[r];
      }
    }
  }
};

template <bool kSquares>
struct SumEach<kLaneBytes, kSquares> {
  template <class T, class Element = T>
  static LANCE_AVX512 LANCE_INLINE void run(const uint8_t* const* rows, size_t num_rows, const T* const* queries,
                                            size_t num_queries, size_t dimension, T* sums, Places places) {
    for (size_t row = 0; row < num_rows; row += kRowTile) {
      T* of_rows = sums + row * places.row_step;
      size_t query = 0;
      for (; sizeof(Element) == sizeof(T) && query + 1 < num_queries; query += 4) {
        size_t count = std::min<size_t>(4, num_queries - query);
        const T* some[4];
        for (size_t k = 0; k < 4; ++k) some[k] = queries[query + std::min(k, count - 1)];
        sum_square_tile<kSquares>(rows + row, some, count, dimension, of_rows + query * places.query_step, places);
      }
      for (; query < num_queries; ++query) {
        T found[kRowTile];
        sum_wide_tile<kSquares, Element>(rows + row, queries[query], dimension, found);
        T* to = of_rows + query * places.query_step;
        for (size_t r = 0; r < kRowTile; ++r) to[r * places.row_step] = found[r];
      }
    }
  }
};

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
