// Taken columns on their way to Arrow, by its C data interface
// (https://arrow.apache.org/docs/format/CDataInterface.html): all of them in one step, and given back without Python.
#pragma once

#include <cstdint>
#include <vector>

#include "takes.hpp"

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

// A struct of the columns, without nulls of its own. Owned by whoever calls its `release`.
ArrowArray arrow_rows(std::vector<TakenColumn> columns, size_t num_rows);

}  // namespace lance
