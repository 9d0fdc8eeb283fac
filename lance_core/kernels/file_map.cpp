#include "file_map.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <mutex>

namespace lance {
namespace {

// What this thread copies out of at present; `begin` is null while it copies nothing.
struct Guarded {
  const volatile uint8_t* begin;
  const volatile uint8_t* end;
  sigjmp_buf jump;
};

thread_local Guarded guarded;

std::mutex mutex;
int num_copying = 0;
struct sigaction previous;

void on_bus_error(int number, siginfo_t* info, void* context) {
  auto* address = static_cast<const volatile uint8_t*>(info->si_addr);
  if (guarded.begin != nullptr && address >= guarded.begin && address < guarded.end) {
    siglongjmp(guarded.jump, 1);
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {  // the access is tried again and ends the process, as it would have done without us
    sigaction(SIGBUS, &previous, nullptr);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

// Holds the handler for as long as any thread copies.
class Handler {
 public:
  Handler() {
    std::lock_guard lock(mutex);
    if (num_copying++ == 0) {
      struct sigaction action{};
      action.sa_sigaction = on_bus_error;
      // A jump out of the handler must not leave the signal blocked.
      action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
      sigaction(SIGBUS, &action, &previous);
    }
  }
  ~Handler() {
    std::lock_guard lock(mutex);
    struct sigaction current;
    if (--num_copying == 0 && sigaction(SIGBUS, nullptr, &current) == 0 && is_ours(current)) {
      sigaction(SIGBUS, &previous, nullptr);
    }
  }
};

// Nothing in here may need a destructor: the jump skips them.
__attribute__((noinline)) bool copy_all(const uint8_t* data, const Copy* copies, size_t n) {
  if (sigsetjmp(guarded.jump, 0) != 0) {
    return false;
  }
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(copies[i].to, data + copies[i].offset, copies[i].length);
  }
  return true;
}

}  // namespace

FileMap::FileMap(int descriptor, size_t bytes) {
  void* data = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    return;
  }
  madvise(data, bytes, MADV_RANDOM);  // advice only: else every page from a disk brings its neighbours
  data_ = static_cast<const uint8_t*>(data);
  bytes_ = bytes;
}

FileMap::~FileMap() {
  if (data_ != nullptr) {
    munmap(const_cast<uint8_t*>(data_), bytes_);
  }
}

bool FileMap::copy(const Copy* copies, size_t n) const {
  Handler handler;
  guarded.begin = data_;
  guarded.end = data_ + bytes_;
  bool done = copy_all(data_, copies, n);
  guarded.begin = nullptr;
  return done;
}

}  // namespace lance
