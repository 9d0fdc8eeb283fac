// Reads and decodes rows of pages of 2.0 files in one call: values as they are in memory, strings, and indices of
// strings (docs/format.md, "2.0"). The decoders in Python need several calls.
#pragma once

#include <optional>

#include "base/pieces.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// A byte range of a file.
struct FilePart {
  size_t offset;
  size_t size;
};

// Strings: the page has the end of each, 64 bits, to which `null_adjustment` is added if the string is null.
struct FlatText {
  FilePart data;
  uint64_t null_adjustment;
  unsigned offset_bits;  // of the decoded offsets
};

struct FlatPage {
  size_t num_rows;
  unsigned bits;  // of a value, of an end of a string, or of an index
  FilePart values;
  std::optional<FilePart> validity;  // a bitmap of the rows
  std::optional<FlatText> text;
  std::optional<Items> items;  // strings; index 0 is null, and item 0 is empty

  // Returns the bits of a fixed-width value, or of an offset.
  unsigned value_bits() const { return text ? text->offset_bits : items ? items->offset_bits : bits; }

  unsigned list_bits() const { return 0; }

  bool has_offsets() const { return text.has_value() || items.has_value(); }
};

// Throws CorruptData if the page has fewer bytes than its rows need.
void check_page(const FlatPage& page);

// Decodes rows [start, end) of a page that `check_page` accepts. Throws CorruptData, also if the file cannot be read.
DecodedRows decode_rows(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch);

}  // namespace lance
