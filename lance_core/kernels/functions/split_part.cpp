#include "functions/split_part.hpp"

#include "functions/find_bytes.hpp"

namespace lance {
namespace {

// Returns how many separators a text has.
int64_t count_separators(Bytes data, size_t begin, size_t end, const std::string& separator) {
  int64_t count = 0;
  for (size_t at = begin; (at = find_bytes(data, at, end, separator)) != kNoPlace; at += separator.size()) ++count;
  return count;
}

// Returns the part of a text after `skipped` separators; nothing if it has fewer.
Bytes part_of(Bytes data, size_t begin, size_t end, const std::string& separator, int64_t skipped) {
  for (; skipped > 0; --skipped) {
    size_t place = find_bytes(data, begin, end, separator);
    if (place == kNoPlace) return {};
    begin = place + separator.size();
  }
  size_t place = find_bytes(data, begin, end, separator);
  return data.slice(begin, (place == kNoPlace ? end : place) - begin);
}

}  // namespace

VariableValues split_part(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                          const std::string& separator, int64_t index) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  OffsetReader offset(offsets.data, offset_bits);
  size_t most = num_values == 0 ? 0 : offset[num_values] - offset[0], width = offset_bytes(offset_bits), size = 0;
  VariableValues result{Block((num_values + 1) * width), Block(most), num_values};
  for (size_t i = 0;; ++i) {
    if (offset_bits == 32) {
      store(result.offsets.data() + i * width, static_cast<uint32_t>(size));
    } else {
      store(result.offsets.data() + i * width, static_cast<uint64_t>(size));
    }
    if (i == num_values) break;
    size_t begin = offset[i], end = offset[i + 1];
    int64_t skipped = index > 0 ? index - 1 : count_separators(data, begin, end, separator) + 1 + index;
    if (skipped < 0) continue;
    Bytes part = part_of(data, begin, end, separator, skipped);
    copy_bytes(result.data.data() + size, part.data, part.size);
    size += part.size;
  }
  result.data.resize(size);
  return result;
}

}  // namespace lance
