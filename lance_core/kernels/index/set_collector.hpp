// Sets of row keys, gathered by value.
//
// The keys of 65536 consecutive rows are grouped by value together, and become the containers in which they are
// stored. So memory grows with the stored sets, not with the rows.
#pragma once

#include <memory>
#include <vector>

#include "index/roaring.hpp"

namespace lance {

// Numbers of distinct values: numbers of 64 bits, or strings of bytes.
class ValueNumbers {
 public:
  // `offset_bits` is that of the offsets of strings; 0 means numbers.
  explicit ValueNumbers(unsigned offset_bits) : offset_bits_(offset_bits), slots_(64, kNone) {}

  // Stores the number of each value to `to`. `values` has numbers, or the bytes of strings.
  void find(Bytes offsets, Bytes values, size_t first, size_t end, uint32_t* to);

  unsigned offset_bits() const { return offset_bits_; }
  size_t size() const { return keys_.size(); }
  size_t num_bytes() const {
    return 8 * (keys_.capacity() + ends_.capacity()) + 4 * slots_.capacity() + bytes_.capacity();
  }
  uint64_t number(uint32_t value) const { return keys_[value]; }
  Bytes string(uint32_t value) const;
  // Returns the numbers of the values in ascending order of the values.
  std::vector<uint32_t> sorted() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  template <class IsEqual, class Add>
  uint32_t find_one(uint64_t key, uint64_t hash, IsEqual is_equal, Add add);
  void grow();

  unsigned offset_bits_;
  std::vector<uint32_t> slots_;  // a hash table of value numbers
  std::vector<uint64_t> keys_;   // numbers, or hashes of strings
  std::vector<uint64_t> ends_;   // of the strings in `bytes_`
  std::vector<uint8_t> bytes_;
};

// Consecutive values in ascending order, and their sets.
struct CollectedSets {
  size_t num_values;
  Block offsets;  // of strings
  Block values;
  RowSets sets;
};

class SetCollector {
 public:
  explicit SetCollector(unsigned offset_bits) : values_(offset_bits) {}
  SetCollector(const SetCollector&) = delete;

  // Adds rows: values as for ValueNumbers, and u64 row keys. Any order is right; ascending keys are fast.
  void add(Bytes offsets, Bytes values, Bytes rows);
  size_t num_bytes() const;
  // Ends the gathering: sorts the values.
  void finish();
  size_t num_values() const { return values_.size(); }
  // Returns the sets of the values from `first` on, by their order: as many as fit into `most_bytes`, at least one.
  CollectedSets sets(size_t first, size_t most_bytes, SetContainer form) const;

 private:
  void flush();
  void add_container(uint32_t value, uint16_t* numbers, size_t n);
  void append_containers(uint32_t value, std::vector<KeyContainer>& to, MergedContainers& merged) const;

  ValueNumbers values_;
  uint64_t high_ = 0;                  // of the waiting row keys
  std::vector<uint32_t> waiting_;      // values of rows that are not in a container yet
  std::vector<uint16_t> waiting_low_;  // and the lowest bits of their keys
  std::vector<uint32_t> starts_;
  std::vector<uint16_t> grouped_;
  std::vector<KeyContainer> containers_;
  std::vector<uint32_t> last_;  // the last container of each value
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  size_t free_bytes_ = 0;  // at the end of the last piece of memory
  bool is_finished_ = false;
  std::vector<uint32_t> order_;
};

}  // namespace lance
