// The chunks of wanted rows of mini-block pages, and the buffers in them: where `take_rows` finds levels and values.
#pragma once

#include <map>

#include "take/rows.hpp"

namespace lance {

// A wanted value: its number among the `count` values of a buffer of a chunk.
struct Cell {
  const uint8_t* data;
  size_t bytes;
  size_t count;
  size_t index;
};

// The chunk of a wanted value, and its page.
struct ChunkCell {
  Cell cell;
  const MiniBlocks* page;
};

// A wanted list: its chunks, as a range of `ChunkCells::chunks`, and the rows that begin before it in the first of
// them.
struct ListRow {
  const MiniBlocks* page = nullptr;
  size_t first = 0;
  size_t last = 0;
  size_t skip = 0;
};

using Members = std::vector<size_t>;  // numbers of cells

// Wanted rows of a column. After `open`, the buffers of each cell are known.
class ChunkCells {
 public:
  ChunkCells(size_t num_rows, bool has_lists, const GuardedCopies& copier)
      : cells(has_lists ? 0 : num_rows), lists(has_lists ? num_rows : 0), copier_(copier) {}

  // Finds the chunks that have the rows of a file.
  void locate(const ColumnPages& column, const RowsToTake& part, const FileMap* map);

  // Returns a page that has one of the rows; null if there is none, or if no file gives it.
  const MiniBlocks* first_page() const;

  // Finds the buffers of levels and values in the chunks.
  void open();

  // Runs the copies that `add(k, cell, copies)` adds for each of `members`.
  template <class Add>
  void copy_each(const std::vector<Cell>& cells, const Members& members, Add add) const {
    std::vector<Copy> copies;
    copies.reserve(members.size());
    for (size_t k : members) {
      add(k, cells[k], copies);
    }
    copy(copies);
  }

  // Returns the cells of the pages that `accept` accepts.
  template <class Accept>
  Members members(Accept accept) const {
    Members chosen;
    chosen.reserve(cells.size());
    for (size_t k = 0; k < cells.size(); ++k) {
      if (accept(*cells[k].page)) {
        chosen.push_back(k);
      }
    }
    return chosen;
  }

  std::vector<ChunkCell> cells;  // of the wanted values; of the chunks until `take_lists`
  std::vector<ListRow> lists;    // none in a column without lists
  std::vector<size_t> chunks;    // numbers of the cells of the chunks of each list
  std::vector<Cell> reps;
  std::vector<Cell> levels;
  std::vector<Cell> values;

 private:
  // The bytes of a chunk in the file, and the number of its cell.
  struct Place {
    int64_t offset;
    size_t length;
    size_t cell;
  };

  void find(size_t number, int64_t offset, const FileMap* map, std::vector<Place>& places);
  void locate_list(const MiniBlocks& page, size_t row, ListRow& list, const FileMap* map, const PieceReader& file,
                   std::vector<Place>& places);
  void copy(const std::vector<Copy>& copies) const;
  void inflate_chunks(Members chosen, Compressor compressor);

  std::map<std::pair<const MiniBlocks*, size_t>, size_t> numbers_;  // of the cells of chunks
  double num_items_ = 0;                                            // estimated number of items of all lists
  std::vector<Block> kept_;                                         // memory of cells that are not in a map
  const GuardedCopies& copier_;
};

}  // namespace lance
