#include "files/descriptor.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

namespace lance {
namespace {

constexpr size_t kShare = 4;  // the other descriptors of the process are left for sockets and other files
constexpr size_t kMost = 4096;

// Returns the number of descriptors that may be open though nobody reads from them. The limit may change at any time.
size_t most_open() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kMost;
  }
  return std::min(kMost, static_cast<size_t>(limit.rlim_cur) / kShare);
}

}  // namespace

// All open descriptors. The lock is held for a few instructions, never during a system call on a file.
class Descriptors {
 public:
  static Descriptors& all() {
    static auto* descriptors = new Descriptors;  // never destroyed, since files may be closed at the end of the process
    return *descriptors;
  }

  // Adds a new descriptor, which is open.
  void begin(Descriptor& one, int number) {
    Closing closing;
    std::lock_guard lock(mutex_);
    add(one, number);
    if (one.path_.empty()) {
      ++one.num_uses_;
    } else {
      unused_.splice(unused_.end(), used_, one.place_);
    }
    trim(most_ = most_open(), closing);
  }

  void end(Descriptor& one) {
    Closing closing;
    std::lock_guard lock(mutex_);
    if (one.number_ >= 0) {
      closing.numbers.push_back(one.number_);
      (one.num_uses_ == 0 ? unused_ : used_).erase(one.place_);
    }
  }

  // Returns the number of a descriptor that is in use from now on; -1 if it is closed.
  int use(Descriptor& one) {
    std::lock_guard lock(mutex_);
    if (one.number_ >= 0 && one.num_uses_++ == 0) {
      used_.splice(used_.end(), unused_, one.place_);
    }
    return one.number_;
  }

  // As `use`, for a descriptor whose file was opened again as `number`, unless another thread was faster.
  int use_anew(Descriptor& one, int number) {
    Closing closing;
    std::lock_guard lock(mutex_);
    if (one.number_ < 0) {
      add(one, number);
      trim(most_ = most_open(), closing);
    } else {
      closing.numbers.push_back(number);
      if (one.num_uses_ == 0) {
        used_.splice(used_.end(), unused_, one.place_);
      }
    }
    ++one.num_uses_;
    return one.number_;
  }

  void end_use(Descriptor& one) {
    Closing closing;
    std::lock_guard lock(mutex_);
    if (--one.num_uses_ == 0) {
      unused_.splice(unused_.end(), used_, one.place_);
      trim(most_, closing);
    }
  }

  size_t close_unused() {
    Closing closing;
    std::lock_guard lock(mutex_);
    trim(0, closing);
    return closing.numbers.size();
  }

 private:
  // Numbers that are closed once the lock is released.
  struct Closing {
    std::vector<int> numbers;
    ~Closing() {
      for (int number : numbers) close(number);
    }
  };

  Descriptors() = default;

  void add(Descriptor& one, int number) {
    one.number_ = number;
    one.place_ = used_.insert(used_.end(), &one);
  }

  void trim(size_t most, Closing& closing) {
    while (used_.size() + unused_.size() > most && !unused_.empty()) {
      closing.numbers.push_back(std::exchange(unused_.front()->number_, -1));
      unused_.pop_front();
    }
  }

  std::mutex mutex_;
  std::list<Descriptor*> used_;
  std::list<Descriptor*> unused_;  // the least recently used first
  size_t most_ = kMost;

  // The lock is taken during a fork. If another thread held it, the child would wait for it forever.
  [[maybe_unused]] const int at_fork_ =
      pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); }, [] { all().mutex_.unlock(); });
};

OpenDescriptor::OpenDescriptor(Descriptor& owner) : owner_(owner), number_(Descriptors::all().use(owner)) {
  if (number_ < 0) {
    int number = owner.open_again(error_);
    if (number >= 0) {
      number_ = Descriptors::all().use_anew(owner, number);
    }
  }
}

OpenDescriptor::~OpenDescriptor() {
  if (number_ >= 0) {
    Descriptors::all().end_use(owner_);
  }
}

Descriptor::Descriptor(int number, std::string path) : path_(std::move(path)) {
  fstat(number, &status_);
  Descriptors::all().begin(*this, number);
}

Descriptor::~Descriptor() { Descriptors::all().end(*this); }

int Descriptor::open_again(int& error) const {
  int number = -1;
  do {
    number = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (number < 0 && (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && close_unused_descriptors() > 0)));
  if (number < 0) {
    error = errno;
    return -1;
  }
  struct stat now;
  if (fstat(number, &now) != 0 || now.st_dev != status_.st_dev || now.st_ino != status_.st_ino ||
      now.st_size != status_.st_size || now.st_mtim.tv_sec != status_.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != status_.st_mtim.tv_nsec) {
    close(number);
    error = ESTALE;
    return -1;
  }
  return number;
}

size_t close_unused_descriptors() { return Descriptors::all().close_unused(); }

}  // namespace lance
