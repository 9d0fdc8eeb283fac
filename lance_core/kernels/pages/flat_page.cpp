#include "pages/flat_page.hpp"

#include <bit>
#include <utility>

#include "base/bits.hpp"
#include "pages/end_offsets.hpp"
#include "pages/gather.hpp"

namespace lance {
namespace {

// Reads `length` bytes of a part of a file, from byte `begin` of the part on.
void read_part(PieceReader& file, FilePart part, size_t begin, size_t length, uint8_t* to) {
  if (begin > part.size || length > part.size - begin) {
    corrupt("%zu bytes at %zu of a buffer of %zu", length, begin, part.size);
  }
  if (length != 0 && !file.read_run(part.offset + begin, length, to)) {
    corrupt("%zu bytes at %zu could not be read", length, part.offset + begin);
  }
}

Block read_block(PieceReader& file, FilePart part, size_t begin, size_t length) {
  Block block(length);
  read_part(file, part, begin, length, block.data());
  return block;
}

bool all_set(Bytes bits, size_t start, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    size_t count = std::min<size_t>(64, n - i);
    if (static_cast<size_t>(std::popcount(word_at(bits, start + i, count))) != count) {
      return false;
    }
  }
  return true;
}

void decode_text(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch,
                 DecodedRows& rows) {
  size_t before = start > 0 ? 1 : 0;
  size_t num_bytes = 8 * (end - start + before);
  if (scratch.encoded.size() < num_bytes) {
    scratch.encoded = Block(num_bytes);
  }
  read_part(file, page.values, 8 * (start - before), num_bytes, scratch.encoded.data());
  NullEnds ends = split_null_ends({scratch.encoded.data(), num_bytes}, end - start, before != 0,
                                  page.text->null_adjustment, page.text->data.size, page.text->offset_bits);
  rows.values = std::move(ends.offsets);
  if (ends.num_nulls != 0) {
    rows.validity = std::move(ends.validity);
  }
  rows.data = read_block(file, page.text->data, ends.begin, ends.end - ends.begin);
}

template <class T>
Block present(Bytes indices, size_t n, bool& has_nulls) {
  Block bits(ceil8(n));
  size_t num_present = 0;
  for (size_t i = 0; i < n; i += 8) {
    unsigned byte = 0;
    for (size_t k = 0, count = std::min<size_t>(8, n - i); k < count; ++k) {
      byte |= static_cast<unsigned>(load<T>(indices.data + (i + k) * sizeof(T)) != 0) << k;
    }
    bits.data()[i / 8] = static_cast<uint8_t>(byte);
    num_present += static_cast<size_t>(std::popcount(byte));
  }
  has_nulls = num_present != n;
  return bits;
}

void decode_indices(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch,
                    DecodedRows& rows) {
  size_t width = page.bits / 8, n = end - start;
  if (scratch.encoded.size() < n * width) {
    scratch.encoded = Block(n * width);
  }
  read_part(file, page.values, start * width, n * width, scratch.encoded.data());
  Bytes indices{scratch.encoded.data(), n * width};
  const Items& items = *page.items;
  VariableValues values =
      gather_variable(indices, n, page.bits, items.offsets, items.data, items.count, items.offset_bits);
  rows.values = std::move(values.offsets);
  rows.data = std::move(values.data);
  bool has_nulls = false;
  Block bits = page.bits == 8    ? present<uint8_t>(indices, n, has_nulls)
               : page.bits == 16 ? present<uint16_t>(indices, n, has_nulls)
               : page.bits == 32 ? present<uint32_t>(indices, n, has_nulls)
                                 : present<uint64_t>(indices, n, has_nulls);
  if (has_nulls) {
    rows.validity = std::move(bits);
  }
}

}  // namespace

void check_page(const FlatPage& page) {
  constexpr size_t kMostBytes = SIZE_MAX / 16;  // so that their bits can be counted
  bool fits = page.bits != 0 && (page.bits == 1 || page.bits % 8 == 0) && page.values.size <= kMostBytes &&
              page.num_rows <= page.values.size * 8 / page.bits;
  if (page.validity) {
    fits = fits && page.validity->size >= ceil8(page.num_rows);
  }
  if (page.text) {
    fits = fits && page.bits == 64 && !page.validity && !page.items;
  }
  if (page.items) {
    bool is_index = page.bits == 8 || page.bits == 16 || page.bits == 32 || page.bits == 64;
    fits = fits && is_index && !page.validity && page.items->offset_bits != 0 && page.items->count != 0;
  }
  if (!fits) {
    corrupt("%zu rows of %u bits in %zu bytes", page.num_rows, page.bits, page.values.size);
  }
}

DecodedRows decode_rows(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch) {
  if (start >= end || end > page.num_rows) {
    corrupt("rows [%zu, %zu) of a page of %zu", start, end, page.num_rows);
  }
  DecodedRows rows;
  rows.num_values = end - start;
  if (page.text) {
    decode_text(page, file, start, end, scratch, rows);
    return rows;
  }
  if (page.items) {
    decode_indices(page, file, start, end, scratch, rows);
    return rows;
  }
  // Bits are read from the beginning of a byte on. The values and their validity begin with the same row.
  size_t first = page.validity || page.bits == 1 ? start / 8 * 8 : start;
  rows.first_value = start - first;
  size_t begin = first * page.bits / 8;
  rows.values = read_block(file, page.values, begin, ceil8(end * page.bits) - begin);
  if (page.validity) {
    Block bits = read_block(file, *page.validity, first / 8, ceil8(end) - first / 8);
    if (!all_set({bits.data(), bits.size()}, rows.first_value, end - start)) {
      rows.validity = std::move(bits);
    }
  }
  return rows;
}

}  // namespace lance
