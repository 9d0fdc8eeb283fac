#include "search/codes.hpp"

#include <algorithm>

#include "search/row_sums.hpp"

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

LANCE_MULTIVERSION void add_squares(float* sums, size_t n, float query, const float* codewords) {
  for (size_t i = 0; i < n; ++i) {
    float difference = query - codewords[i];
    sums[i] += difference * difference;
  }
}

LANCE_MULTIVERSION void subtract_products(float* sums, size_t n, float query, const float* codewords) {
  for (size_t i = 0; i < n; ++i) sums[i] -= query * codewords[i];
}

template <class Sum>
void scan(BestRows& best, const CodedRows& rows, const DistanceScale& scale, Sum sum) {
  alignas(64) float sums[kBlockRows];
  for (size_t start = 0; start < rows.size; start += kBlockRows) {
    size_t n = std::min(kBlockRows, rows.size - start);
    sum(start, n, sums);
    offer_rows(best, rows, scale, start, n, sums);
  }
}

}  // namespace

void scan_lookups(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* table,
                  size_t num_sub_vectors, unsigned bits, const uint8_t* codes) {
  scan(best, rows, scale, [&](size_t start, size_t n, float* sums) {
    std::fill(sums, sums + n, 0.0f);
    const uint8_t* from = codes + start;
    if (bits == 4) {
      for (size_t m = 0; m < num_sub_vectors / 2; ++m) {
        add_half_lookups(sums, n, table + m * 32, from + m * rows.size);
      }
      return;
    }
    size_t m = 0;
    for (; m + 2 <= num_sub_vectors; m += 2) {
      add_two_lookups(sums, n, table + m * 256, from + m * rows.size, from + (m + 1) * rows.size);
    }
    if (m < num_sub_vectors) {
      add_lookups(sums, n, table + m * 256, from + m * rows.size);
    }
  });
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
  std::fill(table, table + num_sub_vectors * num_codewords, 0.0f);
  size_t size = dimension / num_sub_vectors;
  for (size_t m = 0; m < num_sub_vectors; ++m) {
    float* sums = table + m * num_codewords;
    for (size_t i = m * size; i < (m + 1) * size; ++i) {
      const float* codewords = codebook + i * num_codewords;
      if (what == TableOf::squared_distances) {
        add_squares(sums, num_codewords, query[i], codewords);
      } else {
        subtract_products(sums, num_codewords, query[i], codewords);
      }
    }
  }
}

}  // namespace lance
