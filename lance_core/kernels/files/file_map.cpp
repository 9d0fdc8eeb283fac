#include "files/file_map.hpp"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "files/io_counts.hpp"

namespace lance {
namespace {

// The maps that this thread copies from now; no maps while it copies nothing.
struct Guarded {
  const MapRange* maps;
  size_t num_maps;
  sigjmp_buf jump;

  bool holds(const uint8_t* address) const {
    for (size_t i = 0; i < num_maps; ++i) {
      if (address >= maps[i].begin && address < maps[i].end) {
        return true;
      }
    }
    return false;
  }
};

thread_local Guarded guarded;

std::mutex mutex;
int num_copying = 0;
struct sigaction previous;

// The lock is taken during a fork. If another thread held it, the child would wait for it forever.
[[maybe_unused]] const int at_fork =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

void on_bus_error(int number, siginfo_t* info, void* context) {
  if (guarded.holds(static_cast<const uint8_t*>(info->si_addr))) {
    siglongjmp(guarded.jump, 1);
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {  // the access is repeated and ends the process, as without this handler
    sigaction(SIGBUS, &previous, nullptr);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

// Values have few different lengths. Calling memcpy for each value would take longer than the copy itself.
inline void copy_one(const Copy& copy) {
  switch (copy.length) {
    case 1:
      *copy.to = *copy.from;
      return;
    case 2:
      std::memcpy(copy.to, copy.from, 2);
      return;
    case 4:
      std::memcpy(copy.to, copy.from, 4);
      return;
    case 8:
      std::memcpy(copy.to, copy.from, 8);
      return;
    case 16:
      std::memcpy(copy.to, copy.from, 16);
      return;
    default:
      std::memcpy(copy.to, copy.from, copy.length);
  }
}

// No object in here may need a destructor, because the jump skips it.
__attribute__((noinline)) bool copy_all(const Copy* copies, size_t n) {
  constexpr size_t kAhead = 16;  // distant addresses are prefetched, so that the processor waits for several at once
  if (sigsetjmp(guarded.jump, 0) != 0) {
    return false;
  }
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      __builtin_prefetch(copies[i + kAhead].from);
    }
    copy_one(copies[i]);
  }
  return true;
}

// As for `copy_all`.
__attribute__((noinline)) bool read_guarded(void (*read)(void*), void* argument) {
  if (sigsetjmp(guarded.jump, 0) != 0) {
    return false;
  }
  read(argument);
  return true;
}

}  // namespace

FileMap::FileMap(int descriptor, size_t bytes) {
  void* data = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    return;
  }
  madvise(data, bytes, MADV_RANDOM);  // only advice: otherwise every page read from a disk brings its neighbours
  data_ = static_cast<const uint8_t*>(data);
  bytes_ = bytes;
}

FileMap::~FileMap() {
  if (data_ != nullptr) {
    munmap(const_cast<uint8_t*>(data_), bytes_);
  }
}

GuardedCopies::GuardedCopies(std::vector<MapRange> maps) : maps_(std::move(maps)) {
  std::lock_guard lock(mutex);
  if (num_copying++ == 0) {
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    // A jump out of the handler must not leave the signal blocked.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, &action, &previous);
  }
}

GuardedCopies::~GuardedCopies() {
  std::lock_guard lock(mutex);
  struct sigaction current;
  if (--num_copying == 0 && sigaction(SIGBUS, nullptr, &current) == 0 && is_ours(current)) {
    sigaction(SIGBUS, &previous, nullptr);
  }
}

bool GuardedCopies::run(const std::vector<Copy>& copies) const {
  guarded.maps = maps_.data();
  guarded.num_maps = maps_.size();
  bool done = copy_all(copies.data(), copies.size());
  guarded.num_maps = 0;
  size_t num_bytes = 0;
  for (const Copy& copy : copies) num_bytes += copy.length;
  count_reads(copies.size(), num_bytes);
  return done;
}

bool GuardedCopies::run(void (*read)(void*), void* argument) const {
  guarded.maps = maps_.data();
  guarded.num_maps = maps_.size();
  bool done = read_guarded(read, argument);
  guarded.num_maps = 0;
  return done;
}

}  // namespace lance
