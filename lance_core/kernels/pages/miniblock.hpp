// Reads and decodes rows of mini-block pages in one call (docs/format.md, "Mini-block pages"); the decoders in Python
// need several calls. Covers flat columns and lists of flat values, in the encodings of most pages. Neighbouring pages
// with equal descriptions may be joined.
#pragma once

#include <optional>

#include "codecs/fsst.hpp"
#include "compression/inflate.hpp"
#include "files/pieces.hpp"
#include "pages/chunks.hpp"
#include "pages/levels.hpp"

namespace lance {

enum class ValueCoding { flat, bitpacked_inline, byte_streams, runs, variable, fsst };

// The items that values are indices of.
struct Items {
  Bytes offsets;  // none if the items have one width
  Bytes data;
  size_t count;
  unsigned offset_bits;  // 0 if the items have one width
  unsigned item_bits;    // bits of an item of one width, a multiple of 8
};

// Levels and rows of pages of lists.
struct ListShape {
  std::vector<int64_t> first_row;   // first row that begins in each chunk, and the number of rows
  std::vector<int64_t> ended_rows;  // number of rows that end before each chunk, and the number of rows
  LevelEncoding rep;
  ListLevels levels;
  uint16_t max_visible;
  std::vector<uint8_t> depth_of;
  unsigned offset_bits;
};

struct MiniBlocks {
  size_t num_rows;
  std::vector<int64_t> position;     // of each chunk, in the file
  std::vector<int64_t> length;       // of each chunk; 0 for a gap between two pages, which has no values
  std::vector<int64_t> first_value;  // of each chunk, and the number of values
  ChunkShape shape;
  LevelEncoding def;
  uint16_t max_def;
  bool has_nulls;         // whether the values can be null
  Compressor compressor;  // compressor of the first buffer of each chunk
  ValueCoding coding;
  unsigned bits;  // bits of a fixed-width value, of an index if there are items, or of an offset
  const SymbolTable* symbols = nullptr;
  std::optional<Items> items;
  std::optional<ListShape> lists;

  // Returns the bits of a fixed-width value, or of an offset.
  unsigned value_bits() const {
    if (!items) {
      return bits;
    }
    return items->offset_bits == 0 ? items->item_bits : items->offset_bits;
  }

  // Returns the bits of an offset of the lists; 0 without lists.
  unsigned list_bits() const { return lists ? lists->offset_bits : 0; }

  // Returns whether `take_rows` can take single rows of these pages.
  bool can_take() const { return shape.num_buffers == 1; }
};

// Values of some chunks, which include the wanted values, and the lists around the wanted values.
struct DecodedRows {
  size_t first_value = 0;
  size_t num_values = 0;
  std::optional<Block> validity;  // of all values; none if all values are valid
  Block values;                   // fixed-width values, or offsets
  std::optional<Block> data;
  std::optional<Block> list_offsets;  // of the wanted rows; they count from the first wanted value
  std::optional<Block> list_validity;

  // Adds the size in bits of the first `rows[i]` wanted rows to `bits[i]`; `rows` ascends. Counts like
  // lance_core/scan/read/value_sizes.py. `value_bits` are those of a value, or of an offset; `list_bits` those of an
  // offset of the lists.
  void add_bits(unsigned value_bits, unsigned list_bits, const std::vector<int64_t>& rows,
                std::vector<uint64_t>& bits) const;
};

// Memory that is reused for several reads, and grows as needed.
struct Scratch {
  Block encoded{0};
  Block inflated{0};
};

struct ChunkRange {
  size_t first;
  size_t last;
};

// Returns the chunks that have rows [start, end).
ChunkRange choose_chunks(const MiniBlocks& page, size_t start, size_t end);

// Decodes rows [start, end) of pages of a file. Throws CorruptData, also if the file cannot be read.
DecodedRows decode_rows(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, Scratch& scratch);

}  // namespace lance
