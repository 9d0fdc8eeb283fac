// Division of many integers by one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/common.hpp"

namespace lance {

// Divides by a constant without an instruction of division.
// Source: T. Granlund, P. Montgomery: Division by Invariant Integers using Multiplication (1994), figure 4.1.
class Divisor {
 public:
  explicit Divisor(uint64_t divisor) : divisor_(divisor) {
    auto bits = static_cast<unsigned>(std::bit_width(divisor - 1));
    uint64_t rest = (bits == 64 ? 0 : uint64_t{1} << bits) - divisor;  // wraps around to 2^64 less the divisor
    factor_ = static_cast<uint64_t>((static_cast<unsigned __int128>(rest) << 64) / divisor) + 1;
    first_shift_ = std::min(bits, 1U);
    second_shift_ = bits - first_shift_;
  }

  uint64_t rest_of(uint64_t number) const {
    auto upper = static_cast<uint64_t>(static_cast<unsigned __int128>(factor_) * number >> 64);
    uint64_t quotient = (upper + ((number - upper) >> first_shift_)) >> second_shift_;
    return number - quotient * divisor_;
  }

  // Writes the remainders of `count` integers, with their signs.
  template <class T>
  void remainders(const uint8_t* numbers, size_t count, T* out) const {
    int64_t wide[kBlock];
    for (size_t start = 0; start < count; start += kBlock) {
      size_t n = std::min(kBlock, count - start);
      for (size_t i = 0; i < n; ++i) wide[i] = as_signed(load<T>(numbers + (start + i) * sizeof(T)));
      if (small_remainders(wide, n)) {
        for (size_t i = 0; i < n; ++i) out[start + i] = static_cast<T>(wide[i]);
      } else {
        for (size_t i = 0; i < n; ++i) out[start + i] = remainder(load<T>(numbers + (start + i) * sizeof(T)));
      }
    }
  }

  // Returns the remainder of an integer, with its sign.
  template <class T>
  T remainder(T number) const {
    if constexpr (std::is_signed_v<T>) {
      int64_t wide = number, sign = wide >> 63;  // 0, or -1 with all bits
      auto size = static_cast<uint64_t>(wide ^ sign) - static_cast<uint64_t>(sign);
      auto rest = static_cast<int64_t>(rest_of(size));
      return static_cast<T>((rest ^ sign) - sign);
    } else {
      return static_cast<T>(rest_of(number));
    }
  }

 private:
  static constexpr size_t kBlock = 512;

  // Returns a number; one that does not fit becomes the largest, for which floats are not exact either.
  template <class T>
  static int64_t as_signed(T number) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
    } else {
      return number;
    }
  }

  // Replaces numbers by their remainders. Returns false if floats would not be exact for a number or for the divisor.
  bool small_remainders(int64_t* numbers, size_t count) const;

  uint64_t divisor_;
  uint64_t factor_;
  unsigned first_shift_;
  unsigned second_shift_;
};

}  // namespace lance
