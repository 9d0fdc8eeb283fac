// Passes decoded columns to Arrow through its C data interface
// (https://arrow.apache.org/docs/format/CDataInterface.html): all columns at once, and released without Python.
#pragma once

#include <cstdint>
#include <vector>

#include "pages/miniblock.hpp"

extern "C" {
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}

namespace lance {

// Gathers columns into a struct array of rows.
class ArrowColumns {
 public:
  ArrowColumns() = default;
  ArrowColumns(const ArrowColumns&) = delete;
  ArrowColumns& operator=(const ArrowColumns&) = delete;
  ~ArrowColumns();

  // Adds `num_rows` rows of values or of lists of them. Throws CorruptData if booleans in lists do not begin at a byte.
  void add(DecodedRows rows, unsigned value_bits, size_t num_rows);

  // Returns a struct array of all columns, without nulls of its own. The caller owns it and calls its `release`. This
  // object keeps no columns.
  ArrowArray take_rows(size_t num_rows);

 private:
  std::vector<ArrowArray> columns_;
};

}  // namespace lance
