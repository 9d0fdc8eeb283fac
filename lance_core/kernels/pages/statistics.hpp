// Bounds and counts of the values of an Arrow array, zone by zone, for page statistics.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// How values of one width are compared. `bits` are booleans, `bytes` compare like memcmp, integers may be of 1 to 32
// bytes. NaN is no bound; a bound of zero is -0.0 below and +0.0 above.
enum class Order { bits, signed_integers, unsigned_integers, floats, bytes };

// `n` values cut into zones of `rows_per_zone`, the last one may be shorter. One entry per zone.
struct ZoneCounts {
  Block nulls;  // int64
  Block nans;   // int64
  Block known;  // a byte: 1 if the zone has bounds, that is, a value that is neither null nor NaN
};

struct FixedZones {
  ZoneCounts counts;
  Block least;  // values of the same width, 0 without a bound; booleans are a byte
  Block most;
};

// Values start at the `start`-th of the buffers, as in a sliced Arrow array. No validity: no nulls.
FixedZones fixed_zones(Bytes values, Bytes validity, size_t start, size_t n, size_t rows_per_zone, Order order,
                       size_t width);

struct VariableBounds {
  Block known;    // a byte per zone
  Block offsets;  // int32
  Block data;
};

struct VariableZones {
  Block nulls;  // int64
  VariableBounds least;
  VariableBounds most;
};

// Bounds are at most `limit` bytes long: the lower one is cut (UTF-8 between two characters), the upper one cut and
// then raised in its last place that can be raised. If no place can be raised, there is no upper bound.
VariableZones variable_zones(Bytes offsets, Bytes data, Bytes validity, size_t start, size_t n, size_t rows_per_zone,
                             unsigned offset_bits, size_t limit, bool utf8);

}  // namespace lance
