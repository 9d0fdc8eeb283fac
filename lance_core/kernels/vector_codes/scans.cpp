#include "vector_codes/scans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "vector_codes/half_lookups.hpp"
#include "vector_codes/lookup_bounds.hpp"
#include "vectors/row_sums.hpp"

namespace lance {

namespace {

constexpr size_t kBlockRows = LookupBounds::kRows;  // of the layout of codes for lookups

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

constexpr size_t kTables = 4;

// The entries of `squared_distances` for four queries, which share the loads of the codewords.
LANCE_MULTIVERSION void squared_distances_of_four(float* const* entries, size_t num_codewords,
                                                  const float* const* queries, size_t size, const float* codewords) {
  for (size_t first = 0; first < num_codewords; first += kEntries) {
    Entries sums[kTables] = {}, values;
    for (size_t i = 0; i < size; ++i) {
      std::memcpy(&values, codewords + i * num_codewords + first, sizeof values);
      for (size_t k = 0; k < kTables; ++k) {
        Entries difference = queries[k][i] - values;
        sums[k] += difference * difference;
      }
    }
    for (size_t k = 0; k < kTables; ++k) std::memcpy(entries[k] + first, &sums[k], sizeof sums[k]);
  }
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
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float limit = infinity;
  for (; start < rows.size; start += kBlockRows) {
    if (best.limit() != limit) {
      limit = best.limit();
      double distance = limit;
      // The distance of a sum is rounded three times.
      distance += (std::fabs(distance) + std::fabs(scale.offset)) * 4 * std::numeric_limits<float>::epsilon();
      bounds.set_limit((distance - scale.offset) / scale.scale);
      if (bounds.excludes_all()) return;  // the limit only becomes smaller
    }
    size_t n = std::min(kBlockRows, rows.size - start);
    const uint8_t* block = codes + start * num_sub_vectors;
    uint64_t left = bounds.may_be_within(block, n, n);
    if (left == 0) continue;
    alignas(64) float sums[kBlockRows];
    std::fill(sums, sums + n, infinity);
    for (; left != 0; left &= left - 1) {
      auto row = static_cast<size_t>(std::countr_zero(left));
      if (rows.allowed != nullptr && rows.allowed[start + row] == 0) continue;
      sums[row] = sum_of_row(table, num_sub_vectors, block + row, n);
    }
    offer_rows(best, rows, scale, start, n, sums);
  }
}

// Offers the rows of a partition to one query.
void scan_table(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* table,
                size_t num_sub_vectors, unsigned bits, const uint8_t* codes) {
  if (bits == 4) {
    bool has_wide_lookups = has_half_lookups();
    scan(best, rows, scale, [&](size_t start, size_t n, float* sums) {
      size_t width = num_sub_vectors / 2;
      const uint8_t* block = codes + start * width;
      if (has_wide_lookups && n == kHalfLookupRows) {
        half_lookups(sums, table, width, block);
        return;
      }
      std::fill(sums, sums + n, 0.0f);
      for (size_t m = 0; m < width; ++m) add_half_lookups(sums, n, table + m * 32, block + m * n);
    });
    return;
  }
  bool has_bounds = scale.row_scales == nullptr && scale.shift == 0 && scale.scale > 0;
  LookupBounds bounds(table, has_bounds ? num_sub_vectors : 0);
  auto sum = [&](size_t start, size_t n, float* sums) {
    std::fill(sums, sums + n, 0.0f);
    const uint8_t* block = codes + start * num_sub_vectors;
    size_t m = 0;
    for (; m + 2 <= num_sub_vectors; m += 2) {
      add_two_lookups(sums, n, table + m * 256, block + m * n, block + (m + 1) * n);
    }
    if (m < num_sub_vectors) add_lookups(sums, n, table + m * 256, block + m * n);
  };
  // As long as fewer rows were found than wanted, any row may be among the best.
  auto is_bounded = [&] { return has_bounds && bounds.is_usable() && std::isfinite(best.limit()); };
  size_t start = scan(best, rows, scale, sum, is_bounded);
  if (start < rows.size) {
    scan_bounded(best, rows, scale, table, num_sub_vectors, codes, start, bounds);
  }
}

}  // namespace

DistanceScale ScanScale::of(const QueriedRows& rows, size_t query) const {
  DistanceScale result;
  result.scale = scale;
  result.offset = offset + (rows.offsets == nullptr ? 0 : rows.offsets[query]);
  if (rows.shifts != nullptr) result.shift = rows.shifts[query];
  if (rows.shares != nullptr) result.share = rows.shares[query];
  result.row_scales = rows.row_scales;
  result.row_offsets = rows.row_offsets;
  return result;
}

void scan_compared(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                   const Comparison& comparison) {
  constexpr size_t kMost = Comparison::kMostRows;
  auto is_zero = [](uint8_t flag) { return flag == 0; };
  size_t most_queries = 0;
  for (const QueriedRows* each : all) most_queries = std::max(most_queries, each->num_queries);
  std::vector<uint8_t> scratch(comparison.scratch_bytes());
  std::vector<float> distances(kMost * most_queries);
  std::vector<DistanceScale> scales;
  for (const QueriedRows* each : all) {
    const CodedRows& rows = each->rows;
    scales.clear();
    for (size_t i = 0; i < each->num_queries; ++i) scales.push_back(scale.of(*each, i));
    for (size_t start = 0; start < rows.size; start += kMost) {
      size_t n = std::min(kMost, rows.size - start);
      if (rows.allowed != nullptr && std::all_of(rows.allowed + start, rows.allowed + start + n, is_zero)) continue;
      const uint8_t* vectors[kMost];
      for (size_t i = 0; i < n; ++i) vectors[i] = each->codes.data + (start + i) * comparison.vector_bytes();
      comparison.compare_each(vectors, n, each->queries, each->num_queries, scratch.data(), distances.data());
      for (size_t i = 0; i < each->num_queries; ++i) {
        offer_rows(*best[each->queries[i]], rows, scales[i], start, n, distances.data() + i * kMost);
      }
    }
  }
}

void scan_lookups(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                  const LookupTables& tables) {
  for (const QueriedRows* each : all) {
    for (size_t i = 0; i < each->num_queries; ++i) {
      uint32_t query = each->queries[i];
      scan_table(*best[query], each->rows, scale.of(*each, i), tables.tables + query * tables.table_size(),
                 tables.num_sub_vectors, tables.bits, each->codes.data);
    }
  }
}

void lookup_table(TableOf what, const float* query, const float* codebook, size_t dimension, size_t num_sub_vectors,
                  size_t num_codewords, float* table) {
  size_t size = dimension / num_sub_vectors;
  auto entries = what == TableOf::squared_distances ? squared_distances : negative_products;
  for (size_t m = 0; m < num_sub_vectors; ++m) {
    entries(table + m * num_codewords, num_codewords, query + m * size, size, codebook + m * size * num_codewords);
  }
}

namespace {

// A query and rows that it searches.
struct QueryAndRows {
  const QueriedRows* rows;
  size_t place;  // of the query among those of the rows

  uint32_t query() const { return rows->queries[place]; }
};

// Tables of the squared distances of up to four queries to codewords, less the centroids of the rows.
class DistanceTables {
 public:
  explicit DistanceTables(const ProductQueries& queries)
      : queries_(queries),
        size_(queries.num_sub_vectors << queries.bits),
        tables_(kTables * size_),
        differences_(kTables * queries.dimension) {}

  void make(const QueryAndRows* pairs, size_t count) {
    size_t dimension = queries_.dimension;
    for (size_t k = 0; k < count; ++k) {
      float* difference = differences_.data() + k * dimension;
      const float* query = queries_.queries + pairs[k].query() * dimension;
      const float* centroid = queries_.centroids + pairs[k].rows->partition * dimension;
      for (size_t i = 0; i < dimension; ++i) difference[i] = query[i] - centroid[i];
    }
    size_t num_codewords = size_t{1} << queries_.bits, size = dimension / queries_.num_sub_vectors;
    if (count < kTables) {
      for (size_t k = 0; k < count; ++k) {
        lookup_table(TableOf::squared_distances, differences_.data() + k * dimension, queries_.codebook, dimension,
                     queries_.num_sub_vectors, num_codewords, tables_.data() + k * size_);
      }
      return;
    }
    float* entries[kTables];
    const float* some[kTables];
    for (size_t m = 0; m < queries_.num_sub_vectors; ++m) {
      for (size_t k = 0; k < kTables; ++k) {
        entries[k] = tables_.data() + k * size_ + m * num_codewords;
        some[k] = differences_.data() + k * dimension + m * size;
      }
      squared_distances_of_four(entries, num_codewords, some, size, queries_.codebook + m * size * num_codewords);
    }
  }

  const float* operator[](size_t k) const { return tables_.data() + k * size_; }

 private:
  const ProductQueries& queries_;
  size_t size_;  // entries of a table
  std::vector<float> tables_, differences_;
};

}  // namespace

void scan_product_codes(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                        const ProductQueries& queries) {
  auto scan_pair = [&](const QueryAndRows& pair, const float* table) {
    scan_table(*best[pair.query()], pair.rows->rows, scale.of(*pair.rows, pair.place), table, queries.num_sub_vectors,
               queries.bits, pair.rows->codes.data);
  };
  std::vector<QueryAndRows> pairs;
  for (const QueriedRows* rows : all) {
    for (size_t place = 0; place < rows->num_queries; ++place) pairs.push_back({rows, place});
  }
  if (queries.centroids == nullptr) {  // a query has the same table for all partitions
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const QueryAndRows& a, const QueryAndRows& b) { return a.query() < b.query(); });
    std::vector<float> table(queries.num_sub_vectors << queries.bits);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i == 0 || pairs[i].query() != pairs[i - 1].query()) {
        lookup_table(TableOf::negative_products, queries.queries + pairs[i].query() * queries.dimension,
                     queries.codebook, queries.dimension, queries.num_sub_vectors, size_t{1} << queries.bits,
                     table.data());
      }
      scan_pair(pairs[i], table.data());
    }
    return;
  }
  DistanceTables tables(queries);
  for (size_t first = 0; first < pairs.size(); first += kTables) {
    size_t count = std::min(kTables, pairs.size() - first);
    tables.make(pairs.data() + first, count);
    for (size_t k = 0; k < count; ++k) scan_pair(pairs[first + k], tables[k]);
  }
}

}  // namespace lance
