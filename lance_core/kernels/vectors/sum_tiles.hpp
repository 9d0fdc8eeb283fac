// Sums over the elements of a few rows and queries, in vectors: the inner loops of distances.
//
// The sum of a row and a query is the same whatever the other rows and queries are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vectors/widths.hpp"

#define LANCE_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace lance::tiles {

constexpr size_t kLaneBytes = 64;
constexpr size_t kRowTile = 4;         // rows that are compared with one query at once
constexpr size_t kTransposedTile = 6;  // rows that are compared with one group of queries at once

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

}  // namespace lance::tiles
