// Many short byte ranges of a local file, read with few system calls.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "common.hpp"
#include "file_map.hpp"
#include "pool.hpp"

namespace lance {

// Byte ranges of a file that belong together: int64 offsets and lengths.
struct PieceRanges {
  Bytes offsets;
  Bytes lengths;
};

struct Pieces {
  std::vector<Block> data;  // of the ranges of each part, one after the other
  int error = 0;            // errno of a read that failed
  int64_t end = -1;         // where the file ended although a range goes on; -1 when all was read
};

// Reads pieces of one file; thread-safe.
class PieceReader {
 public:
  // Once `map_after` ranges were read, the file is mapped, and short ranges are copied out of the map: a system call
  // for each costs more. Before, a map costs more, since its pages have to be found one by one when they are touched
  // first. Ranges at most `max_gap` bytes apart, in the order given, share a call.
  PieceReader(int descriptor, size_t file_bytes, size_t max_gap, size_t map_after);

  // Every range must lie in the file. The descriptor stays open meanwhile.
  Pieces read(const std::vector<PieceRanges>& parts);

  // The map, for whoever copies `num_ranges` short ranges out of it and then asks `is_whole`; null where reading them
  // costs less.
  const FileMap* map_for(size_t num_ranges);

  // Whether the file is as long as it was. What lies behind the end of one that was truncated reads as zeros.
  bool is_whole() const;

  size_t file_bytes() const { return file_bytes_; }

  // The same for bytes of one long range, of which the system is told before they are touched. Counts as one range for
  // each block of 64 KiB.
  const FileMap* map_for_run(size_t offset, size_t length);

  // One long range; false where not all of it could be read. Counts as above.
  bool read_run(size_t offset, size_t length, uint8_t* to);

 private:
  // Whether all was copied out of the map.
  bool copy(const std::vector<PieceRanges>& parts, Pieces& pieces);
  const FileMap& map();
  void call(const std::vector<PieceRanges>& parts, Pieces& pieces) const;

  int descriptor_;
  size_t file_bytes_;
  size_t max_gap_;
  size_t map_after_;
  std::atomic<size_t> num_read_{0};
  std::once_flag mapped_;
  std::optional<FileMap> map_;
};

}  // namespace lance
