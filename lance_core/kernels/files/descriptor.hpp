// Descriptors of files that are read. Only some of them are open at a time.
//
// A process may have few descriptors, and a scan may hold the files of thousands of fragments. So descriptors that
// nobody reads from are closed, the least recently used first, when more are open than a share of what the process may
// have. The next read opens the file again, and checks that it is the same file.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <list>
#include <string>

namespace lance {

class Descriptor;

// The number of a descriptor, which stays open for the lifetime of this object.
class OpenDescriptor {
 public:
  ~OpenDescriptor();
  OpenDescriptor(const OpenDescriptor&) = delete;
  OpenDescriptor& operator=(const OpenDescriptor&) = delete;

  // -1 if the file could not be opened again; `error` tells why.
  int number() const { return number_; }
  // An errno; ESTALE if another file is at the path now.
  int error() const { return error_; }

 private:
  friend class Descriptor;
  explicit OpenDescriptor(Descriptor& owner);

  Descriptor& owner_;
  int number_ = -1;
  int error_ = 0;
};

// Owner of the descriptor of one file; thread-safe.
class Descriptor {
 public:
  // Takes the open descriptor `number`. It is closed and opened again at `path`, which must be absolute; without a
  // path, it stays open.
  Descriptor(int number, std::string path);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  OpenDescriptor open() { return OpenDescriptor(*this); }

 private:
  friend class OpenDescriptor;
  friend class Descriptors;

  int open_again(int& error) const;

  const std::string path_;
  struct stat status_{};  // of the file when it was opened first
  // The members below belong to the lock of all descriptors.
  int number_ = -1;
  size_t num_uses_ = 0;
  std::list<Descriptor*>::iterator place_;
};

// Closes all descriptors that nobody reads from. Returns how many there were.
size_t close_unused_descriptors();

}  // namespace lance
