// A set of row keys that is asked for many keys at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lance {

// Keys with the same upper 32 bits, such as the rows of a fragment, are bits of a bitmap if they are dense, and a
// sorted list otherwise.
class KeySet {
 public:
  // Throws CorruptData unless the keys are ascending.
  KeySet(const uint64_t* keys, size_t count);

  // Writes for each key 1 if it is in the set, else 0.
  void flags(const uint64_t* keys, size_t count, uint8_t* flags) const;

 private:
  struct Group {
    uint64_t upper;
    uint32_t first;               // the smallest lower half
    std::vector<uint64_t> bits;   // from `first` on
    std::vector<uint32_t> lower;  // of a group without bits

    bool has(uint32_t key) const;
  };

  std::vector<Group> groups_;  // ascending
};

}  // namespace lance
