// Division of many integers by one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

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
  uint64_t divisor_;
  uint64_t factor_;
  unsigned first_shift_;
  unsigned second_shift_;
};

}  // namespace lance
