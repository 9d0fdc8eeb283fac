// Many short byte ranges of a local file, read with few system calls.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/common.hpp"
#include "base/pool.hpp"
#include "files/descriptor.hpp"
#include "files/file_map.hpp"

namespace lance {

// A list of byte ranges of a file: int64 offsets and lengths.
struct PieceRanges {
  Bytes offsets;
  Bytes lengths;
};

struct Pieces {
  std::vector<Block> data;  // the bytes of the ranges of each list, one after the other
  int error = 0;            // errno of a read that failed
  int64_t end = -1;         // end of the file, if it is inside a range; -1 if everything was read
};

// Reads byte ranges of one file; thread-safe.
class PieceReader {
 public:
  // After `map_after` ranges, the file is mapped, and short ranges are copied out of the map, which costs less than a
  // system call for each. Before, a map costs more, because the first access to each of its pages is a page fault.
  // Ranges at most `max_gap` bytes apart, in the order given, share a call.
  PieceReader(std::shared_ptr<Descriptor> descriptor, size_t file_bytes, size_t max_gap, size_t map_after);

  // Every range must lie in the file.
  Pieces read(const std::vector<PieceRanges>& parts);

  // Reads one range with system calls.
  Pieces read_range(int64_t offset, int64_t length) const;

  // Returns the map, out of which the caller copies `num_ranges` short ranges before it calls `is_whole`. Null if
  // reading the ranges costs less.
  const FileMap* map_for(size_t num_ranges);

  // Returns whether the file still has its size. Bytes behind the end of a truncated file read as zeros.
  bool is_whole() const;

  size_t file_bytes() const { return file_bytes_; }

  // Returns the map for one long range, which is announced to the system first. Counts as one range per 64 KiB.
  const FileMap* map_for_run(size_t offset, size_t length);

  // Lets a function read the bytes of one long range in the map. Returns false if reading them costs less than mapping
  // the file, or if not all of them could be read. Then the function may have ended in the middle, without destructors
  // of its objects. So it must own nothing, and throw nothing.
  bool use_run(size_t offset, size_t length, void (*use)(const uint8_t* bytes, void* argument), void* argument);

  // Reads one long range. Returns false if not all of it could be read. Counts like a long range of the map.
  bool read_run(size_t offset, size_t length, uint8_t* to);

 private:
  // Returns whether everything was copied out of the map.
  bool copy(const std::vector<PieceRanges>& parts, Pieces& pieces);
  const FileMap& map();
  void call(const std::vector<PieceRanges>& parts, Pieces& pieces) const;

  std::shared_ptr<Descriptor> descriptor_;
  size_t file_bytes_;
  size_t max_gap_;
  size_t map_after_;
  std::atomic<size_t> num_read_{0};
  std::once_flag mapped_;
  std::optional<FileMap> map_;
};

}  // namespace lance
