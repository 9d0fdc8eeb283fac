// Values of variable length: offsets and bytes of chunks or blocks, joined into Arrow offsets and data.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct VariableValues {
  Block offsets;  // num_values + 1 offsets, starting at 0
  Block data;
  size_t num_values = 0;
};

// Joins chunks in mini-block form: n + 1 offsets counted from the start of the buffer, then the bytes.
VariableValues join_variable(const Stream& stream, const Counts& counts, unsigned offset_bits);

// Joins blocks of the form `width | start | offsets | bytes`, whose offsets start at 0.
VariableValues join_variable_blocks(const Stream& stream, const Counts& counts, unsigned offset_bits);

// Checks that Arrow offsets do not decrease and stay inside `data_size` bytes.
void check_offsets(Bytes offsets, size_t num_values, size_t data_size, unsigned offset_bits);

// Returns `n` copies of one value.
VariableValues repeat_variable(Bytes value, size_t n, unsigned offset_bits);

// Reader of offsets of 32 or 64 bits.
class OffsetReader {
 public:
  OffsetReader(const uint8_t* data, unsigned bits) : data_(data), wide_(bits == 64) {}
  uint64_t operator[](size_t i) const { return wide_ ? load<uint64_t>(data_ + 8 * i) : load<uint32_t>(data_ + 4 * i); }

 private:
  const uint8_t* data_;
  bool wide_;
};

size_t offset_bytes(unsigned offset_bits);

// Returns numbers as offsets. The caller has checked that they fit.
Block offsets_of(const std::vector<size_t>& ends, unsigned offset_bits);

// Returns the `i`-th of the `n` values of a chunk. The caller has checked that the chunk has room for their offsets.
template <class T>
inline Bytes variable_value(Bytes chunk, size_t n, size_t i, size_t index) {
  T begin = load<T>(chunk.data + i * sizeof(T));
  T end = load<T>(chunk.data + (i + 1) * sizeof(T));
  if (begin < (n + 1) * sizeof(T) || end < begin || end > chunk.size) {
    corrupt("chunk %zu of %zu bytes holds a value at [%llu, %llu)", index, chunk.size,
            static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end));
  }
  return {chunk.data + begin, static_cast<size_t>(end - begin)};
}

}  // namespace lance
