// Distinct values of a page and an index for each value (docs/format.md, "Dictionary pages").
#pragma once

#include "base/variable.hpp"
#include "encode/levels.hpp"

namespace lance {

// Values of `width` bytes, or values with offsets if `offset_bits` is not 0.
struct DictionarySource {
  Bytes offsets;
  Bytes data;
  unsigned offset_bits;
  size_t width;
  size_t num_values;
};

struct Distinct {
  bool complete = false;       // false if there are more than `max_items` items; the rest is empty then
  Block indices;               // u32; 0 for nulls
  std::vector<int64_t> first;  // first position of each item, ascending
};

Distinct find_distinct(const DictionarySource& source, Validity validity, size_t max_items);

struct Sampled {
  size_t valid = 0;     // values of the sample that are not null
  size_t distinct = 0;  // distinct values among them
};

// Samples every `step`-th value, at most `most` values.
Sampled sample_distinct(const DictionarySource& source, Validity validity, size_t step, size_t most);

}  // namespace lance
