#include "base/pool.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace lance {
namespace {

constexpr size_t kAlignment = 64;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kExact = true;  // each block is an exact allocation of its own, so that the sanitizer sees every overrun
#else
constexpr bool kExact = false;
#endif
constexpr size_t kPooled = size_t{64} << 10;  // blocks of at least this size are kept for reuse
// Bytes by which used and free blocks together may exceed the largest number of bytes ever in use at once. Without this
// limit, free blocks of sizes that are no longer requested took half as much memory again in a write. With a lower
// limit, streams with changing block sizes would map pages anew all the time.
constexpr size_t kSpare = size_t{32} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

// Rounds up to whole pages and to an eighth of the size, so that a free block fits later requests of similar sizes.
size_t round_up(size_t bytes) {
  size_t pages = (bytes + kPage - 1) / kPage;
  size_t step = 1;
  while (pages / step > 8) {
    step *= 2;
  }
  return (pages + step - 1) / step * step * kPage;
}

uint8_t* map_pages(size_t capacity) {
  bool huge = capacity >= kHugePage;
  size_t span = huge ? capacity + kHugePage : capacity;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw std::bad_alloc();
  }
  if (!huge) {
    return static_cast<uint8_t*>(raw);
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
  // Only advice: the block also works without huge pages. The end has small pages, so that none of it is wasted.
  madvise(data, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

size_t default_retention() {
  size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(memory / 16, size_t{1} << 30);
}

class Pool {
 public:
  uint8_t* take(size_t& capacity) {
    {
      std::lock_guard lock(mutex_);
      auto found = by_capacity_.lower_bound(capacity);
      if (found != by_capacity_.end() && found->first <= capacity + capacity / 2) {
        auto entry = found->second;
        uint8_t* data = entry->data;
        capacity = entry->capacity;
        retained_ -= capacity;
        by_capacity_.erase(found);
        by_age_.erase(entry);
        note_taken(capacity);
        return data;
      }
      release_beyond(std::max(most_live_, live_ + capacity) + kSpare - live_ - capacity);
    }
    uint8_t* data = map_pages(capacity);
    std::lock_guard lock(mutex_);
    note_taken(capacity);
    return data;
  }

  void give_back(uint8_t* data, size_t capacity) {
    std::lock_guard lock(mutex_);
    live_ -= capacity;
    by_age_.push_back({data, capacity, {}});
    auto entry = std::prev(by_age_.end());
    entry->position = by_capacity_.emplace(capacity, entry);
    retained_ += capacity;
    release_beyond(retention_);
  }

  void set_retention(size_t bytes) {
    std::lock_guard lock(mutex_);
    retention_ = bytes;
    release_beyond(bytes);
  }

  size_t retained() {
    std::lock_guard lock(mutex_);
    return retained_;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Free;
  using ByAge = std::list<Free>;
  using ByCapacity = std::multimap<size_t, ByAge::iterator>;
  struct Free {
    uint8_t* data;
    size_t capacity;
    ByCapacity::iterator position;
  };

  void note_taken(size_t capacity) {
    live_ += capacity;
    most_live_ = std::max(most_live_, live_);
  }

  void release_beyond(size_t bytes) {
    while (retained_ > bytes) {
      Free& oldest = by_age_.front();
      munmap(oldest.data, oldest.capacity);
      retained_ -= oldest.capacity;
      by_capacity_.erase(oldest.position);
      by_age_.pop_front();
    }
  }

  std::mutex mutex_;
  ByAge by_age_;
  ByCapacity by_capacity_;
  size_t retained_ = 0;
  size_t live_ = 0;
  size_t most_live_ = 0;
  size_t retention_ = default_retention();
};

Pool& pool();

// The lock is taken during a fork. If another thread held it, every allocation of the child would wait forever.
Pool* make_pool() {
  auto* made = new Pool;
  pthread_atfork([] { pool().lock(); }, [] { pool().unlock(); }, [] { pool().unlock(); });
  return made;
}

// Never destroyed: Arrow buffers over our blocks may outlive static destruction.
Pool& pool() {
  static Pool* instance = make_pool();
  return *instance;
}

std::atomic<size_t> used{0};

}  // namespace

Block::Block(size_t bytes) : size_(bytes) {
  if (bytes > (size_t{1} << 46)) {
    throw std::bad_alloc();
  }
  if (!kExact && bytes >= kPooled - kAlignment) {  // so that a small block's capacity stays below the limit
    capacity_ = round_up(std::max(bytes, kPooled));
    data_ = pool().take(capacity_);
  } else {
    // Never zero, because an empty block has an address too.
    capacity_ = kExact ? std::max(bytes, size_t{1}) : (bytes + kAlignment) & ~(kAlignment - 1);
    void* raw = nullptr;
    if (posix_memalign(&raw, kAlignment, capacity_) != 0) {
      throw std::bad_alloc();
    }
    data_ = static_cast<uint8_t*>(raw);
  }
  used += capacity_;
}

Block::~Block() {
  if (data_ == nullptr) {
    return;
  }
  used -= capacity_;
  if (!kExact && capacity_ >= kPooled) {
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
