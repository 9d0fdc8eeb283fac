// Distances between a query and the codes of a partition, and the nearest rows by them.
#pragma once

#include "vectors/best_rows.hpp"

namespace lance {

// Sums of table entries that codes select. `table` has 2^`bits` floats per sub-vector. The codes are one byte per
// sub-vector (8 bits) or two sub-vectors per byte, the even one in the low half (4 bits): all first bytes of the rows,
// then all second bytes, ...
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

}  // namespace lance
