// Distances between queries and the codes of partitions, and the nearest rows of each query by them.
//
// A scan is given the rows of several partitions, and for each partition the queries that search it. Rows are compared
// with all their queries while they are in the cache of the processor. The distance of a row and a query does not
// depend on the other queries.
#pragma once

#include <vector>

#include "vectors/best_rows.hpp"
#include "vectors/distances.hpp"

namespace lance {

// The rows of one partition, and the queries that they are offered to.
struct QueriedRows {
  CodedRows rows;
  Bytes codes;
  size_t partition = 0;               // its number
  const uint32_t* queries = nullptr;  // their numbers
  size_t num_queries = 0;
  const float* row_scales = nullptr;   // see DistanceScale; null: all rows have the scale of the scan
  const float* row_offsets = nullptr;  // null exactly if there are no scales of rows
  // One number for each of the queries; null: see DistanceScale.
  const float* shifts = nullptr;
  const float* offsets = nullptr;  // added to the offset of the scan
  const float* shares = nullptr;
};

using AllQueriedRows = std::vector<const QueriedRows*>;
using BestOfQueries = std::vector<BestRows*>;

// Common scale and offset of all distances of a scan.
struct ScanScale {
  float scale = 1;
  float offset = 0;

  // The scale of the distances of rows to one of their queries.
  DistanceScale of(const QueriedRows& rows, size_t query) const;
};

// Compares vectors, or codes of one or two bytes per dimension, row after row. The queries are compared one by one.
void scan_compared(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                   const Comparison& comparison);

// Tables of queries for codes. A table has 2^`bits` floats per sub-vector. Codes are one byte per sub-vector (8 bits)
// or two sub-vectors per byte, the even one in the low half (4 bits). They are in blocks of 64 rows, the last one of
// fewer: all first bytes of the rows of a block, then all their second bytes, ... So a scan reads memory from front to
// back.
struct LookupTables {
  const float* tables = nullptr;  // one after the other
  size_t num_sub_vectors = 0;
  unsigned bits = 8;

  size_t table_size() const { return num_sub_vectors << bits; }
  size_t bytes_per_row() const { return bits == 8 ? num_sub_vectors : num_sub_vectors / 2; }
};

// Sums the table entries that codes select.
void scan_lookups(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                  const LookupTables& tables);

enum class TableOf { squared_distances, negative_products };

// Table for `scan_lookups`: the squared distance, or the negative product, of each sub-vector of the query and each
// codeword. `codebook` has the codewords of a sub-vector dimension by dimension:
// [num_sub_vectors][dimension / num_sub_vectors][num_codewords].
void lookup_table(TableOf what, const float* query, const float* codebook, size_t dimension, size_t num_sub_vectors,
                  size_t num_codewords, float* table);

struct ProductQueries {
  const float* queries = nullptr;
  const float* codebook = nullptr;   // as for `lookup_table`
  const float* centroids = nullptr;  // by partition: the codes are those of the differences to it; null: of the
                                     // vectors themselves
  size_t dimension = 0;
  size_t num_sub_vectors = 0;
  unsigned bits = 8;
};

// Sums the squared distances of the differences to the centroid and the codewords, or the negative products of the
// query and the codewords if there are no centroids. Codes are those of `scan_lookups`.
void scan_product_codes(const BestOfQueries& best, const AllQueriedRows& all, const ScanScale& scale,
                        const ProductQueries& queries);

}  // namespace lance
