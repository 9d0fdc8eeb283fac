// Zstandard frames, read (docs/format.md, "General").
// Source: RFC 8878, Zstandard Compression and the application/zstd Media Type.
#pragma once

#include <memory>
#include <optional>

#include "common.hpp"
#include "pool.hpp"

namespace lance {

// The bytes before compression that a frame says it stands for; none where it does not say.
std::optional<uint64_t> zstd_content_size(Bytes frame);

// Reads frames, one after the other, and keeps the memory of its tables from frame to frame.
class ZstdInflater {
 public:
  ZstdInflater();
  ~ZstdInflater();

  // The first frame; `to` has room for `size` bytes and kCopySlack more; exactly `size` have to come out of it. A frame
  // that needs a dictionary is refused. What lies behind the frame is not looked at.
  void inflate(Bytes frame, uint8_t* to, size_t size);

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace lance
