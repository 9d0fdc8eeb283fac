// The pages of one column in many small files, whose bytes are in memory one file behind the other (docs/format.md,
// "Container", "Page layouts" and "2.0"). Files with one page each are covered, whose pages a caller decodes as one
// page.
#pragma once

#include <string>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Where a file lies in memory, and where in memory the metadata of the column lies.
struct FilePlaces {
  std::vector<int64_t> starts;
  std::vector<int64_t> sizes;
  std::vector<int64_t> metadata;
  std::vector<int64_t> metadata_sizes;
};

constexpr size_t kMostPageBuffers = 4;
constexpr size_t kMostPageCounts = 2;

// One page. Python reads it as a NumPy record: see lance_core/encodings/file_pages.py.
struct FilePage {
  int64_t layout;  // number of its layout
  int64_t num_rows;
  int64_t counts[kMostPageCounts];  // numbers that its description has, but not its layout
  int64_t num_buffers;
  int64_t buffers[2 * kMostPageBuffers];  // position in memory and size of each
  int64_t symbols[2];                     // position and size of the symbol table that its values have
};

// The description of a page, without the counts of a single page.
struct SharedLayout {
  uint64_t kind;  // number of the field of `PageLayout` or `ArrayEncoding`
  std::string message;
};

struct FilePages {
  std::vector<SharedLayout> layouts;  // distinct
  std::vector<FilePage> pages;        // of each file
};

// Parses pages of 2.1 and 2.2. Their counts are `num_items` and `num_dictionary_items`. A layout is the message in the
// field of `PageLayout`, without these counts, `num_visible_items`, and the symbol table of FSST in mini-blocks.
// Throws CorruptData if a file has another number of pages in the column, or its metadata contradict the format.
FilePages parse_file_pages(Bytes data, const FilePlaces& places);

// Parses pages of 2.0. A layout is an `ArrayEncoding` without the adjustments for nulls and the numbers of items. These
// are the counts: those of an encoding come before those of the encodings in it. Throws CorruptData as above, and for
// columns that hold blobs, pages with more counts, and messages whose fields are not in ascending order.
FilePages parse_file_arrays(Bytes data, const FilePlaces& places);

// Ranges of bytes in memory, one after the other. Throws CorruptData if one is not in `data`.
Block join_ranges(Bytes data, const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes);

// The chunks of several mini-block pages as those of one page.
struct JoinedChunks {
  Block data;                        // the bytes of all chunks
  std::vector<int64_t> position;     // of each chunk in `data`, and the end
  std::vector<int64_t> first_value;  // of each chunk, and the number of values
  std::vector<int64_t> num_chunks;   // of each page
};

// `words` and `chunks` are the places of buffers 0 and 1 of each page: positions and sizes, alternating.
JoinedChunks join_chunks(Bytes data, const std::vector<int64_t>& words, const std::vector<int64_t>& chunks,
                         const std::vector<int64_t>& num_values, bool large);

}  // namespace lance
