// Reads many short byte ranges of a file that is not mapped. Ranges that overlap or touch are read as one.
#pragma once

#include <algorithm>

#include "files/pieces.hpp"

namespace lance {

// Reads `ranges`, whose members `offset` and `length` are bytes of the file, and calls `use(range, bytes)` for each
// range, in the order of the offsets. The bytes are valid as long as the returned memory. No range may be empty, and
// each must lie in the file.
template <class Range, class Use>
Block read_union(PieceReader& file, std::vector<Range>& ranges, Use use) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.offset < b.offset; });
  std::vector<int64_t> offsets, lengths;  // the union
  for (const Range& range : ranges) {
    auto begin = static_cast<int64_t>(range.offset), end = begin + static_cast<int64_t>(range.length);
    if (offsets.empty() || begin > offsets.back() + lengths.back()) {
      offsets.push_back(begin);
      lengths.push_back(end - begin);
    } else {
      lengths.back() = std::max(lengths.back(), end - offsets.back());
    }
  }
  auto bytes = [](const std::vector<int64_t>& numbers) {
    return Bytes{reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size() * 8};
  };
  Pieces pieces = file.read({{bytes(offsets), bytes(lengths)}});
  if (pieces.error != 0 || pieces.end >= 0) {
    corrupt("%zu byte ranges could not be read", ranges.size());
  }
  const uint8_t* from = pieces.data[0].data();
  size_t k = 0;
  for (const Range& range : ranges) {
    auto begin = static_cast<int64_t>(range.offset);
    while (begin >= offsets[k] + lengths[k]) {
      from += lengths[k++];
    }
    use(range, from + (begin - offsets[k]));
  }
  return std::move(pieces.data[0]);
}

}  // namespace lance
