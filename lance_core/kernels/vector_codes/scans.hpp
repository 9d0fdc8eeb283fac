// Distances between a query and the codes of a partition, and the nearest rows by them.
#pragma once

#include <vector>

#include "vectors/best_rows.hpp"

namespace lance {

// Sums of table entries that codes select. `table` has 2^`bits` floats per sub-vector. The codes are one byte per
// sub-vector (8 bits) or two sub-vectors per byte, the even one in the low half (4 bits). They are in blocks of 64
// rows, the last one of fewer: all first bytes of the rows of a block, then all their second bytes, ... So a scan reads
// memory from front to back.
void scan_lookups(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* table,
                  size_t num_sub_vectors, unsigned bits, const uint8_t* codes);

// Inner products of the query with codes of one byte per dimension, row after row.
void scan_products(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const float* query,
                   size_t dimension, const uint8_t* codes);

// Squared distances between the codes of the query and codes of one byte per dimension, row after row.
void scan_code_distances(BestRows& best, const CodedRows& rows, const DistanceScale& scale, const uint8_t* query,
                         size_t dimension, const uint8_t* codes);

enum class TableOf { squared_distances, negative_products };

// Table for `scan_lookups`: the squared distance, or the negative product, of each sub-vector of the query and each
// codeword. `codebook` has the codewords of a sub-vector dimension by dimension:
// [num_sub_vectors][dimension / num_sub_vectors][num_codewords].
void lookup_table(TableOf what, const float* query, const float* codebook, size_t dimension, size_t num_sub_vectors,
                  size_t num_codewords, float* table);

// Product codes of the rows of one partition, as `scan_lookups` reads them.
struct ProductPartition {
  CodedRows rows;
  const uint8_t* codes = nullptr;
  const float* centroid = nullptr;  // the codes are those of the difference to it; null: of the vectors themselves,
                                    // then it is null for all partitions
};

struct ProductQuery {
  const float* query = nullptr;
  const float* codebook = nullptr;  // as for `lookup_table`
  size_t dimension = 0;
  size_t num_sub_vectors = 0;
  unsigned bits = 8;
};

// Offers the rows of partitions, one after the other: with the squared distances of the differences to the centroid
// and the codewords, or with the negative products of the query and the codewords where there is no centroid.
void scan_product_codes(BestRows& best, const std::vector<ProductPartition>& partitions, const DistanceScale& scale,
                        const ProductQuery& query);

}  // namespace lance
