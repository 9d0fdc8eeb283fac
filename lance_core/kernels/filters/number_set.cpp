#include "filters/number_set.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/common.hpp"

namespace lance {
namespace {

// Bits of a bitmap that stays in the cache of a core, and the most for each number of a longer one: as many as a number
// in a bucket has.
constexpr uint64_t kFewBits = 1 << 18;
constexpr uint64_t kBitsPerNumber = 128;
constexpr size_t kMostNumbers = std::numeric_limits<uint32_t>::max();
// A bucket is looked into for one of so many other numbers.
constexpr size_t kBitsOfHashes = 32;
// Numbers of a bucket that are compared one by one.
constexpr size_t kFewNumbers = 8;

template <class T>
T number_at(const uint8_t* numbers, size_t i) {
  T number;
  std::memcpy(&number, numbers + i * sizeof(T), sizeof(T));
  return number;
}

// Sets a bit per number to whether `test` holds for it.
template <class T, class Test>
void test_all(const uint8_t* numbers, size_t count, uint64_t* words, Test test) {
  for (size_t i = 0; i < count; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0, n = std::min<size_t>(64, count - i); k < n; ++k) {
      word |= static_cast<uint64_t>(test(number_at<T>(numbers, i + k))) << k;
    }
    words[i / 64] = word;
  }
}

// Calls `body` with a zero of the unsigned type of a number.
template <class Body>
void with_type(unsigned bits, Body body) {
  switch (bits) {
    case 8:
      return body(uint8_t{0});
    case 16:
      return body(uint16_t{0});
    case 32:
      return body(uint32_t{0});
    case 64:
      return body(uint64_t{0});
    default:
      corrupt("numbers of %u bits", bits);
  }
}

uint64_t hash_of(uint64_t number) {
  return number * 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
}

}  // namespace

NumberSet::NumberSet(const uint8_t* numbers, size_t count, unsigned bits) : bits_(bits) {
  if (count > kMostNumbers) corrupt("a set of %zu numbers", count);
  with_type(bits, [&](auto zero) { make<decltype(zero)>(numbers, count); });
}

template <class T>
void NumberSet::make(const uint8_t* numbers, size_t count) {
  if (count == 0) return make_buckets({});
  std::vector<uint64_t> sorted(count);
  T lower = number_at<T>(numbers, 0), upper = lower, least = lower, most = lower;  // the latter two are signed
  for (size_t i = 0; i < count; ++i) {
    T number = number_at<T>(numbers, i);
    sorted[i] = number;
    lower = std::min(lower, number);
    upper = std::max(upper, number);
    using Signed = std::make_signed_t<T>;
    if (static_cast<Signed>(number) < static_cast<Signed>(least)) least = number;
    if (static_cast<Signed>(number) > static_cast<Signed>(most)) most = number;
  }
  T span = static_cast<T>(upper - lower), signed_span = static_cast<T>(most - least);
  if (signed_span < span) {
    lower = least;
    span = signed_span;
  }
  if (span < std::max(kFewBits, kBitsPerNumber * count)) {
    bitmap_.resize(span / 64 + 1);
    lower_ = lower;
    for (uint64_t number : sorted) {
      auto place = static_cast<T>(static_cast<T>(number) - lower);
      bitmap_[place / 64] |= uint64_t{1} << (place % 64);
    }
    return;
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  make_buckets(sorted);
}

void NumberSet::make_buckets(const std::vector<uint64_t>& sorted) {
  auto width = static_cast<unsigned>(std::bit_width(sorted.size() | 1));
  shift_ = 64 - width;
  hashes_.assign((kBitsOfHashes << width) / 64, 0);
  hash_shift_ = shift_ - static_cast<unsigned>(std::countr_zero(kBitsOfHashes));
  for (uint64_t number : sorted) {
    uint64_t place = hash_of(number) >> hash_shift_;
    hashes_[place / 64] |= uint64_t{1} << (place % 64);
  }
  starts_.assign((size_t{1} << width) + 1, 0);
  for (uint64_t number : sorted) ++starts_[(hash_of(number) >> shift_) + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  numbers_.resize(sorted.size());
  std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
  for (uint64_t number : sorted) numbers_[next[hash_of(number) >> shift_]++] = number;
}

bool NumberSet::is_in_bucket(uint64_t number) const {
  size_t bucket = hash_of(number) >> shift_;
  const uint64_t *first = numbers_.data() + starts_[bucket], *end = numbers_.data() + starts_[bucket + 1];
  if (static_cast<size_t>(end - first) > kFewNumbers) return std::binary_search(first, end, number);
  return std::find(first, end, number) != end;
}

void NumberSet::find(const uint8_t* numbers, size_t count, uint64_t* words) const {
  with_type(bits_, [&](auto zero) {
    using T = decltype(zero);
    if (bitmap_.empty()) {
      const uint64_t* hashes = hashes_.data();
      unsigned shift = hash_shift_;
      test_all<T>(numbers, count, words, [=](T number) {
        uint64_t place = hash_of(number) >> shift;
        return (hashes[place / 64] >> (place % 64) & 1) != 0;
      });
      for (size_t i = 0; i < count; i += 64) {
        for (uint64_t left = words[i / 64]; left != 0; left &= left - 1) {
          auto k = static_cast<size_t>(std::countr_zero(left));
          if (!is_in_bucket(number_at<T>(numbers, i + k))) words[i / 64] &= ~(uint64_t{1} << k);
        }
      }
      return;
    }
    const uint64_t* bitmap = bitmap_.data();
    size_t size = bitmap_.size();
    auto lower = static_cast<T>(lower_);
    test_all<T>(numbers, count, words, [=](T number) {
      auto place = static_cast<T>(number - lower);
      return place / 64 < size && (bitmap[place / 64] >> (place % 64) & 1) != 0;
    });
  });
}

}  // namespace lance
