// A file mapped into memory, and copies out of it that survive its truncation.
//
// Touching a page behind the end of a mapped file raises SIGBUS, which ends a process. Copies are therefore made under
// a guard: a handler that takes the signal for an address of the map alone and only while something is being copied.
// Whatever handled the signal before is put back afterwards, and gets all other signals meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lance {

// One range of the file and where its bytes go.
struct Copy {
  size_t offset;
  size_t length;
  uint8_t* to;
};

class FileMap {
 public:
  FileMap() = default;
  FileMap(int descriptor, size_t bytes);  // is_open() is false where the system cannot map this file
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  bool is_open() const { return data_ != nullptr; }

  // Copies ranges that lie in the file; false where the system could not bring all of them.
  bool copy(const Copy* copies, size_t n) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lance
