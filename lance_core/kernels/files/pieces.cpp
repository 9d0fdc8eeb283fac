#include "files/pieces.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/io_counts.hpp"

namespace lance {
namespace {

constexpr size_t kMostGap = 4096;
constexpr size_t kMostBytes = size_t{1} << 30;  // Linux moves at most about 2 GiB per call
constexpr size_t kMostParts = 512;              // of one call; the system allows IOV_MAX, which is 1024
constexpr size_t kFaultBytes = 64 << 10;        // of a map that are found when a page of it is touched first
constexpr size_t kReadAhead = 256 << 10;        // the system reads no more ahead at once
constexpr size_t kLongestCopy = 64 << 10;       // for longer ranges, a system call costs less than the copy

// The ranges of one system call.
class Call {
 public:
  explicit Call(int descriptor) : descriptor_(descriptor) { parts_.reserve(kMostParts); }

  // Adds the range to the call. Returns false if it is too far from the ranges before it.
  bool add(int64_t offset, uint8_t* to, size_t length, size_t max_gap) {
    if (!parts_.empty()) {
      if (offset < end_ || static_cast<size_t>(offset - end_) > max_gap || parts_.size() + 2 > kMostParts ||
          bytes_ + length > kMostBytes) {
        return false;
      }
      auto gap = static_cast<size_t>(offset - end_);
      if (gap != 0) {
        parts_.push_back({dropped_, gap});
        bytes_ += gap;
      }
    } else {
      begin_ = offset;
    }
    parts_.push_back({to, length});
    bytes_ += length;
    end_ = offset + static_cast<int64_t>(length);
    return true;
  }

  // Reads everything; false after an error or at the end of the file.
  bool run(Pieces& pieces) {
    size_t part = 0;
    while (part < parts_.size()) {
      ssize_t count = preadv(descriptor_, parts_.data() + part, static_cast<int>(parts_.size() - part), begin_);
      if (count < 0) {
        if (errno == EINTR) {
          continue;
        }
        pieces.error = errno;
        return false;
      }
      if (count == 0) {
        pieces.end = begin_;
        return false;
      }
      begin_ += count;
      auto done = static_cast<size_t>(count);
      for (; part < parts_.size() && done >= parts_[part].iov_len; ++part) {
        done -= parts_[part].iov_len;
      }
      if (part < parts_.size()) {
        parts_[part].iov_base = static_cast<uint8_t*>(parts_[part].iov_base) + done;
        parts_[part].iov_len -= done;
      }
    }
    parts_.clear();
    bytes_ = 0;
    return true;
  }

 private:
  int descriptor_;
  std::vector<iovec> parts_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  size_t bytes_ = 0;
  uint8_t dropped_[kMostGap];
};

// Bytes of all ranges of a part, which lie in the file.
size_t total_bytes(PieceRanges part, size_t file_bytes) {
  size_t n = part.offsets.size / 8;
  if (part.offsets.size % 8 != 0 || part.lengths.size != part.offsets.size) {
    corrupt("%zu bytes of offsets and %zu of lengths", part.offsets.size, part.lengths.size);
  }
  size_t total = 0;
  for (size_t i = 0; i < n; ++i) {
    auto offset = load<int64_t>(part.offsets.data + 8 * i);
    auto length = load<int64_t>(part.lengths.data + 8 * i);
    if (offset < 0 || length < 0 || static_cast<size_t>(length) > file_bytes ||
        static_cast<size_t>(offset) > file_bytes - static_cast<size_t>(length)) {
      corrupt("%lld bytes at %lld", static_cast<long long>(length), static_cast<long long>(offset));
    }
    if (static_cast<size_t>(length) > SIZE_MAX / 4 - total) {
      corrupt("%zu ranges of more bytes than there is memory", n);
    }
    total += static_cast<size_t>(length);
  }
  return total;
}

// Calls `each(offset, length, to)` for every range that has bytes.
template <class Each>
void walk_ranges(const std::vector<PieceRanges>& parts, const Pieces& pieces, Each each) {
  for (size_t k = 0; k < parts.size(); ++k) {
    uint8_t* to = pieces.data[k].data();
    for (size_t i = 0; i < parts[k].offsets.size / 8; ++i) {
      auto offset = load<int64_t>(parts[k].offsets.data + 8 * i);
      auto length = static_cast<size_t>(load<int64_t>(parts[k].lengths.data + 8 * i));
      if (length != 0) {
        each(offset, length, to);
        to += length;
      }
    }
  }
}

}  // namespace

PieceReader::PieceReader(std::shared_ptr<Descriptor> descriptor, size_t file_bytes, size_t max_gap, size_t map_after)
    : descriptor_(std::move(descriptor)), file_bytes_(file_bytes), max_gap_(max_gap), map_after_(map_after) {
  if (max_gap > kMostGap) {
    corrupt("gaps of %zu bytes", max_gap);
  }
}

Pieces PieceReader::read(const std::vector<PieceRanges>& parts) {
  Pieces pieces;
  pieces.data.reserve(parts.size());
  size_t num_ranges = 0;
  for (PieceRanges part : parts) {
    pieces.data.emplace_back(total_bytes(part, file_bytes_));
    num_ranges += part.offsets.size / 8;
  }
  if (num_read_.fetch_add(num_ranges) < map_after_ || !copy(parts, pieces)) {
    call(parts, pieces);
    size_t num_bytes = 0;
    for (const Block& block : pieces.data) num_bytes += block.size();
    count_reads(num_ranges, num_bytes);
  }
  return pieces;
}

Pieces PieceReader::read_range(int64_t offset, int64_t length) const {
  std::vector<PieceRanges> parts = {{{reinterpret_cast<const uint8_t*>(&offset), sizeof offset},
                                     {reinterpret_cast<const uint8_t*>(&length), sizeof length}}};
  Pieces pieces;
  pieces.data.emplace_back(total_bytes(parts[0], file_bytes_));
  call(parts, pieces);
  count_reads(1, static_cast<size_t>(length));
  return pieces;
}

bool PieceReader::copy(const std::vector<PieceRanges>& parts, Pieces& pieces) {
  if (!map().is_open()) {
    return false;
  }
  std::vector<Copy> copies;
  bool all_short = true;
  walk_ranges(parts, pieces, [&](int64_t offset, size_t length, uint8_t* to) {
    all_short &= length <= kLongestCopy;
    copies.push_back({map_->data() + offset, length, to});
  });
  return all_short && GuardedCopies({map_->range()}).run(copies) && is_whole();
}

const FileMap* PieceReader::map_for(size_t num_ranges) {
  return num_read_.fetch_add(num_ranges) >= map_after_ && map().is_open() ? &*map_ : nullptr;
}

const FileMap& PieceReader::map() {
  std::call_once(mapped_, [&] { map_.emplace(descriptor_->open().number(), file_bytes_); });
  return *map_;
}

bool PieceReader::is_whole() const {
  OpenDescriptor open = descriptor_->open();
  struct stat status;
  return fstat(open.number(), &status) == 0 && static_cast<size_t>(status.st_size) >= file_bytes_;
}

bool PieceReader::use_run(size_t offset, size_t length, void (*use)(const uint8_t* bytes, void* argument),
                          void* argument) {
  const FileMap* map = map_for_run(offset, length);
  if (map == nullptr) return false;
  struct Reading {
    void (*use)(const uint8_t*, void*);
    const uint8_t* bytes;
    void* argument;
  } reading{use, map->data() + offset, argument};
  auto read = [](void* given) {
    auto* reading = static_cast<Reading*>(given);
    reading->use(reading->bytes, reading->argument);
  };
  if (!GuardedCopies({map->range()}).run(read, &reading) || !is_whole()) return false;
  count_reads(1, length);
  return true;
}

bool PieceReader::read_run(size_t offset, size_t length, uint8_t* to) {
  if (length > file_bytes_ || offset > file_bytes_ - length) {
    return false;
  }
  const FileMap* map = map_for_run(offset, length);
  if (map != nullptr && GuardedCopies({map->range()}).run({{map->data() + offset, length, to}}) && is_whole()) {
    return true;
  }
  OpenDescriptor open = descriptor_->open();
  for (size_t done = 0; done < length;) {
    ssize_t count =
        pread(open.number(), to + done, std::min(length - done, kMostBytes), static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    done += static_cast<size_t>(count);
  }
  count_reads(1, length);
  return true;
}

const FileMap* PieceReader::map_for_run(size_t offset, size_t length) {
  bool is_worth = num_read_.fetch_add(1 + length / kFaultBytes) >= map_after_;
  if (!is_worth || !map().is_open() || length > file_bytes_ || offset > file_bytes_ - length) {
    return nullptr;
  }
  OpenDescriptor open = descriptor_->open();
  for (size_t done = 0; done < length; done += kReadAhead) {
    // What is not in memory comes from the disk in large reads, not page by page when it is touched.
    posix_fadvise(open.number(), static_cast<off_t>(offset + done),
                  static_cast<off_t>(std::min(length - done, kReadAhead)), POSIX_FADV_WILLNEED);
  }
  return &*map_;
}

void PieceReader::call(const std::vector<PieceRanges>& parts, Pieces& pieces) const {
  OpenDescriptor open = descriptor_->open();
  if (open.number() < 0) {
    pieces.error = open.error();
    return;
  }
  Call call(open.number());
  bool failed = false;
  walk_ranges(parts, pieces, [&](int64_t offset, size_t length, uint8_t* to) {
    if (failed || call.add(offset, to, length, max_gap_)) {
      return;
    }
    failed = !call.run(pieces);
    if (!failed) {
      call.add(offset, to, length, max_gap_);
    }
  });
  if (!failed) {
    call.run(pieces);
  }
}

}  // namespace lance
