// A file mapped into memory, and copies out of it that survive its truncation.
//
// Touching a page behind the end of a mapped file raises SIGBUS, which ends a process. Copies are therefore made under
// a guard: a handler that takes the signal for an address of the map alone and only while something is being copied.
// Whatever handled the signal before is put back afterwards, and gets all other signals meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lance {

// Bytes of a map (or any others) and where they go.
struct Copy {
  const uint8_t* from;
  size_t length;
  uint8_t* to;
};

struct MapRange {
  const uint8_t* begin;
  const uint8_t* end;
};

class FileMap {
 public:
  FileMap() = default;
  FileMap(int descriptor, size_t bytes);  // is_open() is false where the system cannot map this file
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  bool is_open() const { return data_ != nullptr; }
  const uint8_t* data() const { return data_; }
  MapRange range() const { return {data_, data_ + bytes_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// Copies out of maps; the guard stands for as long as this lives.
class GuardedCopies {
 public:
  explicit GuardedCopies(std::vector<MapRange> maps);
  ~GuardedCopies();
  GuardedCopies(const GuardedCopies&) = delete;
  GuardedCopies& operator=(const GuardedCopies&) = delete;

  // Makes copies of bytes inside the maps, and of others; false where the system could not bring all of them.
  bool run(const std::vector<Copy>& copies) const;

 private:
  std::vector<MapRange> maps_;
};

}  // namespace lance
