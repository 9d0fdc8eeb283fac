#include "encode/variable.hpp"

#include <algorithm>
#include <limits>

namespace lance {
namespace {

template <class T>
VariableChunks chunk_values(Bytes offsets, Bytes data, size_t n, size_t target_bytes, size_t max_values) {
  auto offset = [&](size_t i) { return static_cast<size_t>(load<T>(offsets.data + i * sizeof(T))); };
  auto chunk_bytes = [&](size_t at, size_t count) {
    size_t bytes = (count + 1) * sizeof(T) + (offset(at + count) - offset(at));
    return (bytes + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  };
  VariableChunks out;
  std::vector<int64_t> counts;
  size_t total = 0;
  for (size_t at = 0; at < n;) {
    size_t left = n - at, count = 2;
    while (count < left && count * 2 <= max_values && chunk_bytes(at, std::min(count * 2, left)) <= target_bytes) {
      count *= 2;
    }
    count = std::min(count, left);
    counts.push_back(static_cast<int64_t>(count));
    out.lengths.push_back(static_cast<int64_t>(chunk_bytes(at, count)));
    total += static_cast<size_t>(out.lengths.back());
    at += count;
  }
  out.data = Block(total);
  uint8_t* to = out.data.data();
  size_t at = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    auto count = static_cast<size_t>(counts[i]);
    size_t table = (count + 1) * sizeof(T);
    T first = load<T>(offsets.data + at * sizeof(T));
    size_t bytes = offset(at + count) - first;
    auto length = static_cast<size_t>(out.lengths[i]);
    if (length > std::numeric_limits<T>::max()) {
      throw OffsetOverflow("a chunk of more bytes than its offsets can address");
    }
    T shift = static_cast<T>(table - first);
    for (size_t k = 0; k <= count; ++k) {
      store(to + k * sizeof(T), static_cast<T>(load<T>(offsets.data + (at + k) * sizeof(T)) + shift));
    }
    copy_bytes(to + table, data.data + first, bytes);
    std::memset(to + table + bytes, 0, length - table - bytes);
    to += length;
    at += count;
  }
  out.counts = Counts(std::move(counts));
  return out;
}

template <class T>
size_t longest(Bytes offsets, size_t n) {
  T result = 0;
  for (size_t i = 0; i < n; ++i) {
    T length = load<T>(offsets.data + (i + 1) * sizeof(T)) - load<T>(offsets.data + i * sizeof(T));
    result = std::max(result, length);
  }
  return static_cast<size_t>(result);
}

template <class T>
Block rebase(Bytes offsets, size_t n) {
  Block out((n + 1) * sizeof(T));
  T first = load<T>(offsets.data);
  for (size_t i = 0; i <= n; ++i) {
    store(out.data() + i * sizeof(T), static_cast<T>(load<T>(offsets.data + i * sizeof(T)) - first));
  }
  return out;
}

void require_offsets(Bytes offsets, size_t n, unsigned offset_bits) {
  if (n >= offsets.size / offset_bytes(offset_bits)) {
    corrupt("%zu bytes of offsets for %zu values", offsets.size, n);
  }
}

}  // namespace

VariableChunks chunk_variable(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t target_bytes,
                              size_t max_values) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  return offset_bits == 64 ? chunk_values<uint64_t>(offsets, data, num_values, target_bytes, max_values)
                           : chunk_values<uint32_t>(offsets, data, num_values, target_bytes, max_values);
}

size_t longest_value(Bytes offsets, size_t num_values, unsigned offset_bits) {
  require_offsets(offsets, num_values, offset_bits);
  return offset_bits == 64 ? longest<uint64_t>(offsets, num_values) : longest<uint32_t>(offsets, num_values);
}

Block rebase_offsets(Bytes offsets, size_t num_values, unsigned offset_bits) {
  require_offsets(offsets, num_values, offset_bits);
  return offset_bits == 64 ? rebase<uint64_t>(offsets, num_values) : rebase<uint32_t>(offsets, num_values);
}

}  // namespace lance
