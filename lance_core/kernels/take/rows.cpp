#include "take/rows.hpp"

#include <algorithm>
#include <unordered_map>

#include "take/chunk_cells.hpp"
#include "take/flat_rows.hpp"
#include "take/levels.hpp"
#include "take/values.hpp"

namespace lance {
namespace {

// The files of a call, and their maps if they are mapped.
using Files = std::unordered_map<PieceReader*, const FileMap*>;

// Returns whether the known pages of a column have lists.
bool are_lists(const ColumnPages& column) {
  auto known = std::find_if(column.pages.begin(), column.pages.end(), [](const auto* page) { return page != nullptr; });
  return known != column.pages.end() && (*known)->lists.has_value();
}

DecodedRows take_column(ChunkCells& column) {
  const MiniBlocks* page = column.first_page();
  if (page == nullptr) {
    corrupt("a column without rows");
  }
  column.open();
  DecodedRows result;
  if (page->lists) {
    take_lists(column, page->lists->offset_bits, result);
  } else {
    result.validity = take_validity(column);
  }
  result.num_values = column.cells.size();
  take_values(column, *page, result);
  return result;
}

}  // namespace

size_t ColumnPages::page_of(int64_t row) const {
  if (row < 0 || row >= starts.back()) {
    return pages.size();
  }
  if (pages.size() == 1) {
    return 0;
  }
  auto above = std::upper_bound(starts.begin(), starts.end(), row);
  return static_cast<size_t>(above - starts.begin()) - 1;
}

bool ColumnPages::is_flat() const {
  return std::any_of(flat_pages.begin(), flat_pages.end(), [](const auto* page) { return page != nullptr; });
}

std::vector<size_t> ColumnPages::unknown(Bytes rows) const {
  std::vector<size_t> found;
  for (size_t k = 0; k < rows.size / 8; ++k) {
    size_t number = page_of(load<int64_t>(rows.data + 8 * k));
    bool is_unknown = number < pages.size() && !is_known(number);
    if (is_unknown && (found.empty() || found.back() != number)) {
      found.push_back(number);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<std::optional<DecodedRows>> take_rows(const std::vector<RowsToTake>& parts, size_t num_columns,
                                                  size_t num_rows) {
  Files files;
  for (const RowsToTake& part : parts) {
    if (part.columns.size() != num_columns || part.rows.size % 8 != 0 ||
        (part.places.data != nullptr && part.places.size != part.rows.size)) {
      corrupt("%zu columns, and %zu bytes of rows for %zu of places", part.columns.size(), part.rows.size,
              part.places.size);
    }
    for (const ColumnPages* column : part.columns) {
      if (files.count(column->file) == 0) {
        files[column->file] = column->file->map_for(num_columns * (part.rows.size / 8));
      }
    }
  }
  std::vector<MapRange> maps;
  for (const auto& [file, map] : files) {
    if (map != nullptr) {
      maps.push_back(map->range());
    }
  }
  GuardedCopies copier(std::move(maps));
  std::vector<std::optional<DecodedRows>> taken(num_columns);
  for (size_t i = 0; i < num_columns; ++i) {
    try {
      if (!parts.empty() && parts[0].columns[i]->is_flat()) {
        std::vector<FlatRowsToTake> flat;
        for (const RowsToTake& part : parts) {
          flat.push_back({part.columns[i], part.rows, part.places, files.at(part.columns[i]->file)});
        }
        taken[i] = take_flat_rows(flat, num_rows, copier);
        continue;
      }
      bool has_lists = !parts.empty() && are_lists(*parts[0].columns[i]);
      ChunkCells column(num_rows, has_lists, copier);
      for (const RowsToTake& part : parts) {
        column.locate(*part.columns[i], part, files.at(part.columns[i]->file));
      }
      taken[i] = take_column(column);
    } catch (const CorruptData&) {
    } catch (const OffsetOverflow&) {
    }
  }
  for (const auto& [file, map] : files) {
    if (map != nullptr && !file->is_whole()) {
      return std::vector<std::optional<DecodedRows>>(num_columns);
    }
  }
  return taken;
}

}  // namespace lance
