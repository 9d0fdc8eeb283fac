#include "pool.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace lance {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = size_t{1} << 20;  // from here on a block is made of huge pages
constexpr size_t kAlignment = 64;

// Sizes are rounded so that a returned block fits later requests of about its size: 1, 2, 3, 4 huge pages, then eighths.
size_t round_large(size_t bytes) {
  size_t pages = (bytes + kHugePage - 1) / kHugePage;
  size_t step = 1;
  while (pages / step > 8) {
    step *= 2;
  }
  return (pages + step - 1) / step * step * kHugePage;
}

uint8_t* map_large(size_t capacity) {
  size_t span = capacity + kHugePage;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw std::bad_alloc();
  }
  auto start = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned != start) {
    munmap(raw, aligned - start);
  }
  if (aligned + capacity != start + span) {
    munmap(reinterpret_cast<void*>(aligned + capacity), start + span - aligned - capacity);
  }
  auto* data = reinterpret_cast<uint8_t*>(aligned);
  madvise(data, capacity, MADV_HUGEPAGE);  // advice only: without huge pages the block still works
  return data;
}

class Pool {
 public:
  uint8_t* take(size_t capacity) {
    {
      std::lock_guard lock(mutex_);
      auto found = free_.find(capacity);
      if (found != free_.end() && !found->second.empty()) {
        uint8_t* data = found->second.back();
        found->second.pop_back();
        retained_ -= capacity;
        return data;
      }
    }
    return map_large(capacity);
  }

  void give_back(uint8_t* data, size_t capacity) {
    {
      std::lock_guard lock(mutex_);
      if (retained_ + capacity <= retention_) {
        free_[capacity].push_back(data);
        retained_ += capacity;
        return;
      }
    }
    munmap(data, capacity);
  }

  void set_retention(size_t bytes) {
    std::lock_guard lock(mutex_);
    retention_ = bytes;
    for (auto& [capacity, blocks] : free_) {
      while (retained_ > retention_ && !blocks.empty()) {
        munmap(blocks.back(), capacity);
        blocks.pop_back();
        retained_ -= capacity;
      }
    }
  }

  size_t retained() {
    std::lock_guard lock(mutex_);
    return retained_;
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<uint8_t*>> free_;
  size_t retained_ = 0;
  size_t retention_ = size_t{64} << 20;
};

// Never destroyed: Arrow buffers over our blocks may outlive static destruction.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

std::atomic<size_t> used{0};

}  // namespace

Block::Block(size_t bytes) : size_(bytes) {
  if (bytes >= kLarge) {
    if (bytes > (size_t{1} << 46)) {
      throw std::bad_alloc();
    }
    capacity_ = round_large(bytes);
    data_ = pool().take(capacity_);
  } else {
    capacity_ = (bytes + kAlignment) & ~(kAlignment - 1);  // never zero: an empty block still has an address
    data_ = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, capacity_));
    if (data_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  used += capacity_;
}

Block::~Block() {
  if (data_ == nullptr) {
    return;
  }
  used -= capacity_;
  if (capacity_ >= kHugePage) {
    pool().give_back(data_, capacity_);
  } else {
    std::free(data_);
  }
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

PoolUse pool_use() { return {used.load(), pool().retained()}; }

void set_pool_retention(size_t bytes) { pool().set_retention(bytes); }

}  // namespace lance
