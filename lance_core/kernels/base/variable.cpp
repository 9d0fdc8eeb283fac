#include "base/variable.hpp"

#include <algorithm>

#include "base/flat.hpp"

namespace lance {

size_t offset_bytes(unsigned offset_bits) {
  if (offset_bits != 32 && offset_bits != 64) {
    corrupt("offsets of %u bits", offset_bits);
  }
  return offset_bits / 8;
}

Block offsets_of(const std::vector<size_t>& ends, unsigned offset_bits) {
  Block offsets(ends.size() * offset_bytes(offset_bits));
  for (size_t k = 0; k < ends.size(); ++k) {
    if (offset_bits == 32) {
      store(offsets.data() + 4 * k, static_cast<uint32_t>(ends[k]));
    } else {
      store(offsets.data() + 8 * k, static_cast<uint64_t>(ends[k]));
    }
  }
  return offsets;
}

namespace {

// Writes the offsets of one chunk, moved to begin at `base`. Returns false if they decrease.
template <class T>
bool rebase(const uint8_t* from, size_t n, T base, T* to) {
  T first = load<T>(from);
  T previous = first;
  bool ordered = true;
  for (size_t i = 0; i < n; ++i) {
    T next = load<T>(from + (i + 1) * sizeof(T));
    ordered &= next >= previous;
    to[i] = next - first + base;
    previous = next;
  }
  return ordered;
}

template <class T>
VariableValues join_chunks(const Stream& stream, const Counts& counts) {
  size_t total = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    Bytes chunk = stream.chunk(i);
    auto n = static_cast<size_t>(counts.values[i]);
    if (chunk.size / sizeof(T) < n + 1) {
      corrupt("chunk %zu has %zu bytes for %zu offsets", i, chunk.size, n + 1);
    }
    T first = load<T>(chunk.data);
    T last = load<T>(chunk.data + n * sizeof(T));
    if (first < (n + 1) * sizeof(T) || last < first || last > chunk.size) {
      corrupt("chunk %zu of %zu bytes holds values at [%llu, %llu)", i, chunk.size,
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(last));
    }
    total += last - first;
  }
  if (sizeof(T) == 4 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  VariableValues result;
  result.num_values = static_cast<size_t>(counts.total);
  result.offsets = Block((result.num_values + 1) * sizeof(T));
  result.data = Block(total);
  T* offsets = reinterpret_cast<T*>(result.offsets.data());
  uint8_t* to = result.data.data();
  T base = 0;
  *offsets++ = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    Bytes chunk = stream.chunk(i);
    auto n = static_cast<size_t>(counts.values[i]);
    T first = load<T>(chunk.data);
    size_t bytes = load<T>(chunk.data + n * sizeof(T)) - first;
    if (!rebase(chunk.data, n, base, offsets)) {
      corrupt("chunk %zu has offsets that decrease", i);
    }
    copy_bytes(to, chunk.data + first, bytes);
    offsets += n;
    to += bytes;
    base += static_cast<T>(bytes);
  }
  return result;
}

// Offsets and bytes of one block.
struct VariableBlock {
  Bytes offsets;
  Bytes data;
};

template <class T>
VariableBlock open_block(Bytes block, size_t n) {
  if (block.size / sizeof(T) < 2 || block.size / sizeof(T) - 2 <= n) {
    corrupt("a block of %zu bytes for %zu values", block.size, n);
  }
  T width = load<T>(block.data);
  T start = load<T>(block.data + sizeof(T));
  if (width != sizeof(T) * 8) {
    corrupt("a block of values says its offsets have %llu bits where the column has %zu",
            static_cast<unsigned long long>(width), sizeof(T) * 8);
  }
  if (start < (n + 3) * sizeof(T) || start > block.size) {
    corrupt("a block of %zu bytes starts its values at %llu", block.size, static_cast<unsigned long long>(start));
  }
  return {block.slice(2 * sizeof(T), (n + 1) * sizeof(T)), block.slice(start, block.size - start)};
}

template <class T>
void check_ordered(Bytes offsets, size_t n, size_t data_size) {
  if (offsets.size / sizeof(T) <= n) {
    corrupt("%zu bytes for the offsets of %zu values", offsets.size, n);
  }
  bool ordered = true;
  T previous = 0;
  for (size_t i = 0; i <= n; ++i) {
    T next = load<T>(offsets.data + i * sizeof(T));
    ordered &= next >= previous;
    previous = next;
  }
  if (!ordered || previous > data_size) {
    corrupt("offsets of %zu values decrease or leave their %zu bytes", n, data_size);
  }
}

template <class T>
VariableValues join_blocks(const Stream& stream, const Counts& counts) {
  std::vector<VariableBlock> blocks;
  size_t total = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    VariableBlock block = open_block<T>(stream.chunk(i), n);
    check_ordered<T>(block.offsets, n, block.data.size);
    size_t first = load<T>(block.offsets.data), last = load<T>(block.offsets.data + n * sizeof(T));
    block.data = block.data.slice(first, last - first);
    total += block.data.size;
    blocks.push_back(block);
  }
  if (sizeof(T) == 4 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  VariableValues result;
  result.num_values = static_cast<size_t>(counts.total);
  result.offsets = Block((result.num_values + 1) * sizeof(T));
  result.data = Block(total);
  T* offsets = reinterpret_cast<T*>(result.offsets.data());
  size_t at = 0;
  *offsets++ = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    rebase(blocks[i].offsets.data, n, static_cast<T>(at), offsets);
    copy_bytes(result.data.data() + at, blocks[i].data.data, blocks[i].data.size);
    offsets += n;
    at += blocks[i].data.size;
  }
  return result;
}

template <class T>
VariableValues repeat(Bytes value, size_t n) {
  if (n > (size_t{1} << 46) / std::max(value.size, sizeof(T))) {
    corrupt("%zu copies of a value of %zu bytes", n, value.size);
  }
  if (sizeof(T) == 4 && value.size * n > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  VariableValues result;
  result.num_values = n;
  result.offsets = Block((n + 1) * sizeof(T));
  T* offsets = reinterpret_cast<T*>(result.offsets.data());
  for (size_t i = 0; i <= n; ++i) {
    offsets[i] = static_cast<T>(i * value.size);
  }
  result.data = repeat_value(value, n);
  return result;
}

}  // namespace

VariableValues join_variable(const Stream& stream, const Counts& counts, unsigned offset_bits) {
  require_same_chunks(stream, counts);
  return offset_bytes(offset_bits) == 4 ? join_chunks<uint32_t>(stream, counts) : join_chunks<uint64_t>(stream, counts);
}

VariableValues join_variable_blocks(const Stream& stream, const Counts& counts, unsigned offset_bits) {
  require_same_chunks(stream, counts);
  return offset_bytes(offset_bits) == 4 ? join_blocks<uint32_t>(stream, counts) : join_blocks<uint64_t>(stream, counts);
}

void check_offsets(Bytes offsets, size_t num_values, size_t data_size, unsigned offset_bits) {
  if (offset_bytes(offset_bits) == 4) {
    check_ordered<uint32_t>(offsets, num_values, data_size);
  } else {
    check_ordered<uint64_t>(offsets, num_values, data_size);
  }
}

VariableValues repeat_variable(Bytes value, size_t n, unsigned offset_bits) {
  return offset_bytes(offset_bits) == 4 ? repeat<uint32_t>(value, n) : repeat<uint64_t>(value, n);
}

}  // namespace lance
