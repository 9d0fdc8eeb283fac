// Bounds and counts of the values of an Arrow array, per zone of rows, for page statistics.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Order of values of one width. `bits` are booleans, `bytes` are compared like memcmp, integers have 1 to 32 bytes. NaN
// is never a bound. A lower bound of zero is -0.0, an upper bound of zero is +0.0.
enum class Order { bits, signed_integers, unsigned_integers, floats, bytes };

// Counts of `n` values in zones of `rows_per_zone` values; the last zone may be shorter. One entry per zone.
struct ZoneCounts {
  Block nulls;  // int64
  Block nans;   // int64
  Block known;  // one byte: 1 if the zone has bounds, because a value is neither null nor NaN
};

struct FixedZones {
  ZoneCounts counts;
  Block least;  // values of the same width, 0 without a bound; a boolean takes a byte
  Block most;
};

// `start` is the number of the first value in the buffers, as in a sliced Arrow array. Empty `validity` means no nulls.
FixedZones fixed_zones(Bytes values, Bytes validity, size_t start, size_t n, size_t rows_per_zone, Order order,
                       size_t width);

struct VariableBounds {
  Block known;    // one byte per zone
  Block offsets;  // int32
  Block data;
};

struct VariableZones {
  Block nulls;  // int64
  VariableBounds least;
  VariableBounds most;
};

// Bounds have at most `limit` bytes. The lower bound is truncated (UTF-8 between two characters). The upper bound is
// truncated and then raised in its last place that can be raised; if there is none, there is no upper bound.
VariableZones variable_zones(Bytes offsets, Bytes data, Bytes validity, size_t start, size_t n, size_t rows_per_zone,
                             unsigned offset_bits, size_t limit, bool utf8);

}  // namespace lance
