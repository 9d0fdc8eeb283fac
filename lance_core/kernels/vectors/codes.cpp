#include "vectors/codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "vectors/lookup_bounds.hpp"
#include "vectors/row_sums.hpp"

namespace lance {

namespace {

constexpr size_t kBlockRows = 512;  // the sums of a block stay in the first cache

LANCE_MULTIVERSION void add_lookups(float* sums, size_t n, const float* table, const uint8_t* codes) {
  for (size_t i = 0; i < n; ++i) sums[i] += table[codes[i]];
}

// Two sub-vectors at once halve the loads and stores of the sums.
LANCE_MULTIVERSION void add_two_lookups(float* sums, size_t n, const float* table, const uint8_t* first,
                                        const uint8_t* second) {
  const float* other = table + 256;
  for (size_t i = 0; i < n; ++i) sums[i] += table[first[i]] + other[second[i]];
}

LANCE_MULTIVERSION void add_half_lookups(float* sums, size_t n, const float* table, const uint8_t* codes) {
  const float* other = table + 16;
  for (size_t i = 0; i < n; ++i) sums[i] += table[codes[i] & 15] + other[codes[i] >> 4];
}

LANCE_MULTIVERSION void products(float* sums, size_t n, const float* query, size_t dimension, const uint8_t* codes) {
  for (size_t i = 0; i < n; ++i) sums[i] = lanes::product(query, codes + i * dimension, dimension);
}

LANCE_MULTIVERSION void code_distances(float* sums, size_t n, const uint8_t* query, size_t dimension,
                                       const uint8_t* codes) {
  for (size_t i = 0; i < n; ++i) {
    sums[i] = static_cast<float>(lanes::squared_distance(query, codes + i * dimension, dimension));
  }
}

typedef float Entries __attribute__((vector_size(64)));
constexpr size_t kEntries = 16;

// Writes one entry per codeword: `add(entry, a, b)` for the elements of a sub-vector of the query and of the codeword.
template <class Add>
LANCE_INLINE void write_entries(float* entries, size_t num_codewords, const float* query, size_t size,
                                const float* codewords, Add add) {
  size_t first = 0;
  for (; first + kEntries <= num_codewords; first += kEntries) {
    Entries sums = {}, values;
    for (size_t i = 0; i < size; ++i) {
      std::memcpy(&values, codewords + i * num_codewords + first, sizeof values);
      add(sums, query[i], values);
    }
    std::memcpy(entries + first, &sums, sizeof sums);
  }
  for (; first < num_codewords; ++first) {
    entries[first] = 0;
    for (size_t i = 0; i < size; ++i) add(entries[first], query[i], codewords[i * num_codewords + first]);
  }
}

LANCE_MULTIVERSION void squared_distances(float* entries, size_t num_codewords, const float* query, size_t size,
                                          const float* codewords) {
  write_entries(entries, num_codewords, query, size, codewords,
                [](auto& into, float a, const auto& b) __attribute__((always_inline)) {
                  auto difference = a - b;
                  into += difference * difference;
                });
}

LANCE_MULTIVERSION void negative_products(float* entries, size_t num_codewords, const float* query, size_t size,
                                          const float* codewords) {
  write_entries(entries, num_codewords, query, size, codewords,
                [](auto& into, float a, const auto& b) __attribute__((always_inline)) { into -= a * b; });
}

// Calls `sum(start, n, sums)` for blocks of the rows until `is_done()` after a block. Returns the row
// after the last block.
template <class Sum, class IsDone>
size_t scan(BestRows& best, const CodedRows& rows, const DistanceScale& scale, Sum sum, IsDone is_done) {
  alignas(64) float sums[kBlockRows];
  size_t start = 0;
  while (start < rows.size && !is_done()) {
    size_t n = std::min(kBlockRows, rows.size - start);
    sum(start, n, sums);
    offer_rows(best, rows, scale, start, n, sums);
    start += n;
  }
  return start;
}

template <class Sum>
void scan(BestRows& best, const CodedRows& rows, const DistanceScale& scale, Sum sum) {
  scan(best, rows, scale, sum, [] { return false; });
}

// The sum of one row, added in the same order as those of a block.
float sum_of_row(const float* table, size_t num_sub_vectors, const uint8_t* codes, size_t stride) {
  float sum = 0;
  size_t m = 0;
  for (; m + 2 <= num_sub_vectors; m += 2, table += 512, codes += 2 * stride) {
    sum += table[codes[0]] + table[256 + codes[stride]];
  }
  return m < num_sub_vectors ? sum + table[codes[0]] : sum;
}

// Offers the rows from `start` on, and computes exact sums only of those that their lower bounds do not exclude.
void scan_bounded(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* table,
                  size_t num_sub_vectors, const uint8_t* codes, size_t start, LookupBounds& bounds) {
  constexpr size_t kRows = LookupBounds::kRows;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float limit = infinity;
  for (; start < rows.size; start += kRows) {
    if (best.limit() != limit) {
      limit = best.limit();
      double distance = limit;
      // The distance of a sum is rounded three times.
      distance += (std::fabs(distance) + std::fabs(scale.offset)) * 4 * std::numeric_limits<float>::epsilon();
      bounds.set_limit((distance - scale.offset) / scale.scale);
    }
    size_t n = std::min(kRows, rows.size - start);
    uint64_t left = bounds.may_be_within(codes + start, rows.size, n);
    if (left == 0) continue;
    alignas(64) float sums[kRows];
    std::fill(sums, sums + n, infinity);
    for (; left != 0; left &= left - 1) {
      auto row = static_cast<size_t>(std::countr_zero(left));
      if (rows.allowed != nullptr && rows.allowed[start + row] == 0) continue;
      sums[row] = sum_of_row(table, num_sub_vectors, codes + start + row, rows.size);
    }
    offer_rows(best, rows, scale, start, n, sums);
  }
}

}  // namespace

void scan_lookups(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* table,
                  size_t num_sub_vectors, unsigned bits, const uint8_t* codes) {
  if (bits == 4) {
    scan(best, rows, scale, [&](size_t start, size_t n, float* sums) {
      std::fill(sums, sums + n, 0.0f);
      for (size_t m = 0; m < num_sub_vectors / 2; ++m) {
        add_half_lookups(sums, n, table + m * 32, codes + start + m * rows.size);
      }
    });
    return;
  }
  bool has_bounds = scale.row_scales == nullptr && scale.shift == 0 && scale.scale > 0;
  LookupBounds bounds(table, has_bounds ? num_sub_vectors : 0);
  auto sum = [&](size_t start, size_t n, float* sums) {
    std::fill(sums, sums + n, 0.0f);
    const uint8_t* from = codes + start;
    size_t m = 0;
    for (; m + 2 <= num_sub_vectors; m += 2) {
      add_two_lookups(sums, n, table + m * 256, from + m * rows.size, from + (m + 1) * rows.size);
    }
    if (m < num_sub_vectors) {
      add_lookups(sums, n, table + m * 256, from + m * rows.size);
    }
  };
  // As long as fewer rows were found than wanted, any row may be among the best.
  auto is_bounded = [&] { return has_bounds && bounds.is_usable() && std::isfinite(best.limit()); };
  size_t start = scan(best, rows, scale, sum, is_bounded);
  if (start < rows.size) {
    scan_bounded(best, rows, scale, table, num_sub_vectors, codes, start, bounds);
  }
}

void scan_products(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* query,
                   size_t dimension, const uint8_t* codes) {
  scan(best, rows, scale,
       [&](size_t start, size_t n, float* sums) { products(sums, n, query, dimension, codes + start * dimension); });
}

void scan_code_distances(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const uint8_t* query,
                         size_t dimension, const uint8_t* codes) {
  scan(best, rows, scale, [&](size_t start, size_t n, float* sums) {
    code_distances(sums, n, query, dimension, codes + start * dimension);
  });
}

void lookup_table(TableOf what, const float* query, const float* codebook, size_t dimension, size_t num_sub_vectors,
                  size_t num_codewords, float* table) {
  size_t size = dimension / num_sub_vectors;
  auto entries = what == TableOf::squared_distances ? squared_distances : negative_products;
  for (size_t m = 0; m < num_sub_vectors; ++m) {
    entries(table + m * num_codewords, num_codewords, query + m * size, size, codebook + m * size * num_codewords);
  }
}

void scan_product_codes(BestRows& best, const std::vector<ProductPartition>& partitions, const DistanceScale& scale,
                        const ProductQuery& query) {
  size_t num_codewords = size_t{1} << query.bits;
  std::vector<float> table(query.num_sub_vectors * num_codewords), difference(query.dimension);
  auto make_table = [&](TableOf what, const float* wanted) {
    lookup_table(what, wanted, query.codebook, query.dimension, query.num_sub_vectors, num_codewords, table.data());
  };
  bool has_products = false;  // their table is the same for all partitions
  for (const ProductPartition& partition : partitions) {
    if (partition.centroid != nullptr) {
      for (size_t i = 0; i < query.dimension; ++i) difference[i] = query.query[i] - partition.centroid[i];
      make_table(TableOf::squared_distances, difference.data());
    } else if (!has_products) {
      make_table(TableOf::negative_products, query.query);
    }
    has_products = partition.centroid == nullptr;
    scan_lookups(best, partition.rows, scale, table.data(), query.num_sub_vectors, query.bits, partition.codes);
  }
}

}  // namespace lance
