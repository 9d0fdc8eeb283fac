// Decoded rows of pages, a few chunks at a time, while they are in the cache of the processor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "pages/flat_page.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// Decoded values of this many bytes stay in the cache of one core.
constexpr size_t kBlockBytes = 256 << 10;

// Returns whether the values of a page have one width of whole bytes once they are decoded.
inline bool has_fixed_values(const MiniBlocks& page) {
  return !page.items && !page.lists && page.coding != ValueCoding::variable && page.coding != ValueCoding::fsst &&
         page.bits % 8 == 0;
}

inline bool has_fixed_values(const FlatPage& page) {
  return !page.text && !page.items && !page.lists && page.bits % 8 == 0;
}

// Returns where a block ends that has `num_rows` rows or a few more. No chunk is in two blocks, so that none is decoded
// twice.
inline size_t block_end(const MiniBlocks& page, size_t start, size_t num_rows) {
  const std::vector<int64_t>& firsts = page.first_value;
  auto next = std::lower_bound(firsts.begin(), firsts.end(), static_cast<int64_t>(start + num_rows));
  return next == firsts.end() ? page.num_rows : static_cast<size_t>(*next);
}

inline size_t block_end(const FlatPage& page, size_t start, size_t num_rows) {
  return std::min(page.num_rows, start + num_rows);
}

// Throws CorruptData unless a page has rows [start, end), at least one, of values of `width` bytes.
template <class Pages>
void check_fixed_rows(const Pages& page, size_t start, size_t end, size_t width) {
  if (!has_fixed_values(page) || width == 0 || page.bits != 8 * width || start >= end || end > page.num_rows) {
    corrupt("rows [%zu, %zu) of a page of %zu, with values of %u bits", start, end, page.num_rows, page.bits);
  }
}

// Calls `use` with the values of rows [start, end), for which `check_fixed_rows` holds, where they are in the map of
// the file. Returns false if the page has them in another form, or if they cannot be read there; then `use` may have
// ended in the middle, without destructors of its objects. So it must own nothing while it reads them.
inline bool use_mapped(const MiniBlocks&, PieceReader&, size_t, size_t, const auto&) { return false; }

template <class Use>
bool use_mapped(const FlatPage& page, PieceReader& file, size_t start, size_t end, const Use& use) {
  if (page.validity) return false;
  struct Call {
    const Use& use;
    std::exception_ptr error;
  } call{use, nullptr};
  auto act = [](const uint8_t* values, void* argument) {
    auto* call = static_cast<Call*>(argument);
    try {
      call->use(values);
    } catch (...) {  // an error must not leave the guard of the map
      call->error = std::current_exception();
    }
  };
  size_t width = page.bits / 8;
  bool is_done = file.use_run(page.values.offset + start * width, (end - start) * width, act, &call);
  if (call.error) std::rethrow_exception(call.error);
  return is_done;
}

// Decodes rows [start, end) of values of `width` bytes in blocks. Calls `use` with the rows of each, the number of its
// first row, counted from `start`, and the number of its rows. Throws what `check_fixed_rows` and `decode_rows` throw.
template <class Pages, class Use>
void each_block(const Pages& page, PieceReader& file, size_t start, size_t end, size_t width, Use use) {
  check_fixed_rows(page, start, end, width);
  const size_t block_rows = std::max<size_t>(1, kBlockBytes / width);
  Scratch scratch;
  for (size_t from = start; from < end;) {
    size_t to = std::min(end, block_end(page, from, block_rows));
    size_t count = to - from;
    DecodedRows rows = decode_rows(page, file, from, to, scratch);
    if (rows.num_values != count || rows.values.size() / width < rows.first_value + count) {
      corrupt("%zu bytes for %zu values", rows.values.size(), count);
    }
    use(rows, from - start, count);
    from = to;
  }
}

}  // namespace lance
