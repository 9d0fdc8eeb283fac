// Memory for decoded data.
//
// Mapping a fresh page takes longer than decoding the values that go into it. So blocks of 64 KiB and more are kept for
// reuse, up to a limit and up to the memory that was in use before. Blocks of 2 MiB and more have huge pages.
// Smaller blocks come from malloc. All blocks are aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lance {

class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes);  // throws std::bad_alloc
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  // Sets the number of used bytes, at most capacity(). Memory is neither allocated nor freed.
  void resize(size_t bytes) { size_ = bytes < capacity_ ? bytes : capacity_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

struct PoolUse {
  size_t used_bytes;      // in live blocks
  size_t retained_bytes;  // in free blocks, kept for reuse
};

PoolUse pool_use();
// Sets the limit in bytes for free blocks. Above it, the blocks that were free for longest are returned to the system.
// The default is a sixteenth of the machine's memory, at most 1 GiB.
void set_pool_retention(size_t bytes);

}  // namespace lance
