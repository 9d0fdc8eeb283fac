#include "pages/flat_page.hpp"

#include <bit>
#include <utility>

#include "base/bits.hpp"
#include "base/variable.hpp"
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

NullEnds read_ends(const FlatPage& page, PieceReader& file, size_t start, size_t end, uint64_t null_adjustment,
                   size_t limit, unsigned offset_bits, Scratch& scratch) {
  size_t before = start > 0 ? 1 : 0;
  size_t num_bytes = 8 * (end - start + before);
  if (scratch.encoded.size() < num_bytes) {
    scratch.encoded = Block(num_bytes);
  }
  read_part(file, page.values, 8 * (start - before), num_bytes, scratch.encoded.data());
  return split_null_ends({scratch.encoded.data(), num_bytes}, end - start, before != 0, null_adjustment, limit,
                         offset_bits);
}

void decode_text(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch,
                 DecodedRows& rows) {
  const FlatText& text = *page.text;
  NullEnds ends = read_ends(page, file, start, end, text.null_adjustment, text.data.size, text.offset_bits, scratch);
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

// Returns `n` bits of a bitmap, from bit `first` on.
Block bits_from(const Block& bits, size_t first, size_t n) {
  Block moved(ceil8(n));
  for (size_t i = 0; i < n; i += 8) {
    moved.data()[i / 8] =
        static_cast<uint8_t>(word_at({bits.data(), bits.size()}, first + i, std::min<size_t>(8, n - i)));
  }
  return moved;
}

DecodedRows decode_lists(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch) {
  const FlatLists& lists = *page.lists;
  NullEnds ends = read_ends(page, file, start, end, lists.null_adjustment, lists.num_items, lists.offset_bits, scratch);
  DecodedRows rows;
  if (ends.begin == ends.end) {
    rows = no_values(page);
  } else {
    size_t first = lists.first_item + ends.begin, last = lists.first_item + ends.end - 1;
    size_t number = lists.page_of(first);
    if (number != lists.page_of(last)) {
      corrupt("items [%zu, %zu] in several pages", first, last);
    }
    size_t before = lists.starts[number];
    rows = decode_rows(*lists.pages[number], file, first - before, last + 1 - before, scratch);
    if (rows.validity && rows.first_value != 0) {  // the validity of items begins with the first wanted item
      rows.validity = bits_from(*rows.validity, rows.first_value, rows.num_values);
    }
    if (page.value_bits() == 1 && rows.first_value != 0) {
      rows.values = bits_from(rows.values, rows.first_value, rows.num_values);
      rows.first_value = 0;
    }
  }
  rows.list_offsets = std::move(ends.offsets);
  if (ends.num_nulls != 0) {
    rows.list_validity = std::move(ends.validity);
  }
  return rows;
}

void check_lists(const FlatPage& page) {
  const FlatLists& lists = *page.lists;
  bool fits = page.bits == 64 && !page.validity && !page.text && !page.items && !lists.pages.empty() &&
              lists.starts.size() == lists.pages.size() + 1 && (lists.offset_bits == 32 || lists.offset_bits == 64) &&
              lists.num_items < lists.null_adjustment && lists.first_item >= lists.starts.front() &&
              lists.first_item <= lists.starts.back() && lists.num_items <= lists.starts.back() - lists.first_item;
  for (size_t i = 0; fits && i < lists.pages.size(); ++i) {
    const FlatPage* items = lists.pages[i];
    fits = items != nullptr && !items->lists && lists.starts[i] <= lists.starts[i + 1] &&
           lists.starts[i + 1] - lists.starts[i] <= items->num_rows &&
           items->value_bits() == lists.pages[0]->value_bits() && items->has_offsets() == lists.pages[0]->has_offsets();
  }
  if (!fits) {
    corrupt("lists of %zu items in %zu pages", lists.num_items, lists.pages.size());
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
  if (page.lists) {
    check_lists(page);
  }
}

DecodedRows no_values(const FlatPage& page) {
  DecodedRows rows;
  rows.values = Block(0);
  if (page.has_offsets()) {
    rows.values = offsets_of({0}, page.value_bits());
    rows.data = Block(0);
  }
  return rows;
}

DecodedRows decode_rows(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch) {
  if (start >= end || end > page.num_rows) {
    corrupt("rows [%zu, %zu) of a page of %zu", start, end, page.num_rows);
  }
  if (page.lists) {
    return decode_lists(page, file, start, end, scratch);
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
