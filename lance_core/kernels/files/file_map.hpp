// A file mapped into memory, and copies out of it that survive a truncation of the file.
//
// Accessing a page after the end of a mapped file raises SIGBUS, which ends the process. So copies are made under a
// guard: a signal handler for addresses of the map, installed only while bytes are copied. It passes all other signals
// to the previous handler, which is restored afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lance {

// Source and destination of a copy out of a map or other memory.
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
  FileMap(int descriptor, size_t bytes);  // is_open() is false if the system cannot map this file
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

// Copies out of maps, and other reads of them. The guard exists for the lifetime of this object.
class GuardedCopies {
 public:
  explicit GuardedCopies(std::vector<MapRange> maps);
  ~GuardedCopies();
  GuardedCopies(const GuardedCopies&) = delete;
  GuardedCopies& operator=(const GuardedCopies&) = delete;

  // Copies bytes of the maps or other memory. Returns false if the system could not read all of them.
  bool run(const std::vector<Copy>& copies) const;

  // Calls a function that reads the maps. Returns false if the system could not read them: then the function ended in
  // the middle, without destructors of its objects. So the function must own nothing.
  bool run(void (*read)(void*), void* argument) const;

 private:
  std::vector<MapRange> maps_;
};

}  // namespace lance
