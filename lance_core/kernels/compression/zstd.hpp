// Zstandard frames, reading side (docs/format.md, "General").
// Source: RFC 8878, Zstandard Compression and the application/zstd Media Type.
#pragma once

#include <memory>
#include <optional>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns the decompressed size that a frame declares; none if it declares none.
std::optional<uint64_t> zstd_content_size(Bytes frame);

// Decompresses frames, one after the other. Keeps the memory of its tables from frame to frame.
class ZstdInflater {
 public:
  ZstdInflater();
  ~ZstdInflater();

  // Decompresses the first frame, which must have exactly `size` bytes. `to` has room for `size` bytes and kCopySlack
  // more. A frame that needs a dictionary is refused. Bytes after the frame are ignored.
  void inflate(Bytes frame, uint8_t* to, size_t size);

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace lance
