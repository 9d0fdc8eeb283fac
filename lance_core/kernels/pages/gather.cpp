#include "pages/gather.hpp"

#include <algorithm>

#include "base/bits.hpp"

namespace lance {
namespace {

// Unsigned numbers at any alignment.
template <class T>
struct Indices {
  using Number = T;
  const uint8_t* data;
  T operator[](size_t i) const { return load<T>(data + i * sizeof(T)); }
};

// Calls `body` with the indices in their width.
template <class Body>
auto with_indices(Bytes indices, size_t num_values, unsigned index_bits, Body body) {
  if (index_bits != 8 && index_bits != 16 && index_bits != 32 && index_bits != 64) {
    corrupt("dictionary indices of %u bits", index_bits);
  }
  if (indices.size / (index_bits / 8) < num_values) {
    corrupt("%zu bytes for %zu dictionary indices of %u bits", indices.size, num_values, index_bits);
  }
  switch (index_bits) {
    case 8:
      return body(Indices<uint8_t>{indices.data});
    case 16:
      return body(Indices<uint16_t>{indices.data});
    case 32:
      return body(Indices<uint32_t>{indices.data});
    default:
      return body(Indices<uint64_t>{indices.data});
  }
}

template <class Index>
void check_below(Index index, size_t n, size_t num_items) {
  typename Index::Number highest = 0;
  for (size_t i = 0; i < n; ++i) {
    highest = std::max(highest, index[i]);
  }
  if (n != 0 && highest >= num_items) {
    corrupt("dictionary index %llu of %zu items", static_cast<unsigned long long>(highest), num_items);
  }
}

template <class Value, class Index>
void gather_typed(Index index, size_t n, const uint8_t* items, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) {
    store(out + i * sizeof(Value), load<Value>(items + static_cast<size_t>(index[i]) * sizeof(Value)));
  }
}

template <class T, class Index>
VariableValues gather_strings(Index index, size_t n, Bytes offsets, Bytes data, size_t num_items) {
  constexpr size_t kStep = 32;
  constexpr size_t kPaddedItems = size_t{1} << 16;  // 2 MiB of padded items
  VariableValues result;
  result.num_values = n;
  result.offsets = Block((n + 1) * sizeof(T));
  T* to = reinterpret_cast<T*>(result.offsets.data());
  auto from = [&](size_t item) { return load<T>(offsets.data + item * sizeof(T)); };
  size_t total = 0;
  to[0] = 0;
  for (size_t i = 0; i < n; ++i) {
    total += from(static_cast<size_t>(index[i]) + 1) - from(index[i]);
    to[i + 1] = static_cast<T>(total);
  }
  if (sizeof(T) == 4 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  size_t longest = 0;
  for (size_t i = 0; i < num_items; ++i) {
    longest = std::max(longest, static_cast<size_t>(from(i + 1) - from(i)));
  }
  Block bytes(total + kStep);
  uint8_t* out = bytes.data();
  if (longest <= kStep && num_items <= kPaddedItems) {
    // A copy of fixed length has no branches. The items are padded, so that such a copy stays inside the buffer.
    Block items(num_items * kStep);
    for (size_t i = 0; i < num_items; ++i) {
      copy_bytes(items.data() + i * kStep, data.data + from(i), from(i + 1) - from(i));
    }
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(out + to[i], items.data() + static_cast<size_t>(index[i]) * kStep, kStep);
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      copy_bytes(out + to[i], data.data + from(index[i]), to[i + 1] - to[i]);
    }
  }
  bytes.resize(total);
  result.data = std::move(bytes);
  return result;
}

}  // namespace

void check_indices(Bytes indices, size_t num_values, unsigned index_bits, size_t num_items) {
  with_indices(indices, num_values, index_bits, [&](auto index) { check_below(index, num_values, num_items); });
}

Block gather_fixed(Bytes indices, size_t num_values, unsigned index_bits, Bytes items, size_t width) {
  if (width == 0) {
    corrupt("dictionary items without bytes");
  }
  return with_indices(indices, num_values, index_bits, [&](auto index) {
    check_below(index, num_values, items.size / width);
    Block out(num_values * width);
    switch (width) {
      case 1:
        gather_typed<uint8_t>(index, num_values, items.data, out.data());
        break;
      case 2:
        gather_typed<uint16_t>(index, num_values, items.data, out.data());
        break;
      case 4:
        gather_typed<uint32_t>(index, num_values, items.data, out.data());
        break;
      case 8:
        gather_typed<uint64_t>(index, num_values, items.data, out.data());
        break;
      default:
        for (size_t i = 0; i < num_values; ++i) {
          std::memcpy(out.data() + i * width, items.data + static_cast<size_t>(index[i]) * width, width);
        }
    }
    return out;
  });
}

GatheredBits gather_bits(Bytes indices, size_t num_values, unsigned index_bits, Bytes bits, size_t num_items) {
  if (bits.size < ceil8(num_items)) {
    corrupt("%zu bytes for the bits of %zu items", bits.size, num_items);
  }
  return with_indices(indices, num_values, index_bits, [&](auto index) {
    check_below(index, num_values, num_items);
    GatheredBits result{Block(ceil8(num_values))};
    BitWriter writer(result.bits.data());
    for (size_t i = 0; i < num_values; ++i) {
      bool bit = (bits.data[index[i] / 8] >> (index[i] % 8)) & 1;
      result.num_unset += !bit;
      writer.append(bit);
    }
    return result;
  });
}

VariableValues gather_variable(Bytes indices, size_t num_values, unsigned index_bits, Bytes offsets, Bytes data,
                               size_t num_items, unsigned offset_bits) {
  check_offsets(offsets, num_items, data.size, offset_bits);
  return with_indices(indices, num_values, index_bits, [&](auto index) {
    check_below(index, num_values, num_items);
    return offset_bytes(offset_bits) == 4 ? gather_strings<uint32_t>(index, num_values, offsets, data, num_items)
                                          : gather_strings<uint64_t>(index, num_values, offsets, data, num_items);
  });
}

}  // namespace lance
