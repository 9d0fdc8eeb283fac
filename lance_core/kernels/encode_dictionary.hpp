// Distinct values of a page and an index for each value (docs/format.md, "Dictionary pages").
#pragma once

#include "encode_levels.hpp"
#include "variable.hpp"

namespace lance {

// Values of `width` bytes, or under offsets of `offset_bits` where that is not 0.
struct DictionarySource {
  Bytes offsets;
  Bytes data;
  unsigned offset_bits;
  size_t width;
  size_t num_values;
};

struct Distinct {
  bool complete = false;       // false: there are more than `max_items`, and the rest is empty
  Block indices;               // u32; 0 for nulls
  std::vector<int64_t> first;  // where each item occurs first, in order
};

Distinct find_distinct(const DictionarySource& source, Validity validity, size_t max_items);

struct Sampled {
  size_t valid = 0;     // values of the sample that are not null
  size_t distinct = 0;  // and different ones among them
};

// Looks at every `step`-th value, at `most` of them.
Sampled sample_distinct(const DictionarySource& source, Validity validity, size_t step, size_t most);

}  // namespace lance
