// A set of integers in which many integers are looked up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lance {

// Numbers near each other are bits of a bitmap. Others are in buckets by a hash, ascending in each: so many numbers in
// one bucket, which a caller may have chosen, cost a binary search.
class NumberSet {
 public:
  // Takes `count` numbers of `bits` bits: 8, 16, 32 or 64; signed or not, in any order.
  NumberSet(const uint8_t* numbers, size_t count, unsigned bits);

  unsigned bits() const { return bits_; }

  // Sets a bit per number, in words of 64, to whether it is in the set. The bits after the last number are zero.
  void find(const uint8_t* numbers, size_t count, uint64_t* words) const;

 private:
  template <class T>
  void make(const uint8_t* numbers, size_t count);
  void make_buckets(const std::vector<uint64_t>& sorted);
  bool is_in_bucket(uint64_t number) const;

  unsigned bits_;
  std::vector<uint64_t> bitmap_;  // empty if there are buckets
  uint64_t lower_ = 0;            // number of the first bit
  std::vector<uint64_t> hashes_;  // a bitmap: few others than the numbers have a hash with a bit
  unsigned hash_shift_ = 0;       // of a hash, to get its bit
  std::vector<uint64_t> numbers_;
  std::vector<uint32_t> starts_;  // of the buckets among the numbers, and the end of the last one
  unsigned shift_ = 0;            // of a hash, to get its bucket
};

}  // namespace lance
