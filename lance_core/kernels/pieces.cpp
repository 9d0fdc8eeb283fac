#include "pieces.hpp"

#include <limits.h>
#include <sys/uio.h>

#include <cerrno>

namespace lance {
namespace {

constexpr size_t kMostGap = 4096;
constexpr size_t kMostBytes = size_t{1} << 30;  // Linux moves at most about 2 GiB per call
constexpr size_t kMostParts = 512;              // of one call; the system allows IOV_MAX, which is 1024

// The ranges of one system call.
class Call {
 public:
  explicit Call(int descriptor) : descriptor_(descriptor) { parts_.reserve(kMostParts); }

  // Whether the range was taken in; it is not where it lies too far from those before it.
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

}  // namespace

namespace {

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

}  // namespace

Pieces read_pieces(int descriptor, size_t file_bytes, const std::vector<PieceRanges>& parts, size_t max_gap) {
  if (max_gap > kMostGap) {
    corrupt("gaps of %zu bytes", max_gap);
  }
  Pieces pieces;
  pieces.data.reserve(parts.size());
  for (PieceRanges part : parts) {
    pieces.data.emplace_back(total_bytes(part, file_bytes));
  }
  Call call(descriptor);
  for (size_t k = 0; k < parts.size(); ++k) {
    uint8_t* to = pieces.data[k].data();
    for (size_t i = 0; i < parts[k].offsets.size / 8; ++i) {
      auto offset = load<int64_t>(parts[k].offsets.data + 8 * i);
      auto length = static_cast<size_t>(load<int64_t>(parts[k].lengths.data + 8 * i));
      if (length == 0) {
        continue;
      }
      if (!call.add(offset, to, length, max_gap)) {
        if (!call.run(pieces)) {
          return pieces;
        }
        call.add(offset, to, length, max_gap);
      }
      to += length;
    }
  }
  call.run(pieces);
  return pieces;
}

}  // namespace lance
