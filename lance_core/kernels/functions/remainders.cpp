#include "functions/remainders.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace lance {
namespace {

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

 private:
  uint64_t divisor_;
  uint64_t factor_;
  unsigned first_shift_;
  unsigned second_shift_;
};

template <class T>
void write_remainders(const uint8_t* numbers, size_t count, Divisor divisor, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    T number = load<T>(numbers + i * sizeof(T));
    if constexpr (std::is_signed_v<T>) {
      int64_t wide = number, sign = wide >> 63;  // 0, or -1 with all bits
      auto size = static_cast<uint64_t>(wide ^ sign) - static_cast<uint64_t>(sign);
      auto rest = static_cast<int64_t>(divisor.rest_of(size));
      store(out + i * sizeof(T), static_cast<T>((rest ^ sign) - sign));
    } else {
      store(out + i * sizeof(T), static_cast<T>(divisor.rest_of(number)));
    }
  }
}

}  // namespace

Block remainders(Bytes numbers, unsigned bits, bool is_signed, uint64_t divisor) {
  size_t width = bits / 8, count = numbers.size / width;
  Block result(count * width);
  auto write = [&](auto signed_zero) {
    using Signed = decltype(signed_zero);
    if (is_signed) {
      write_remainders<Signed>(numbers.data, count, Divisor(divisor), result.data());
    } else {
      write_remainders<std::make_unsigned_t<Signed>>(numbers.data, count, Divisor(divisor), result.data());
    }
  };
  switch (bits) {
    case 8:
      write(int8_t{0});
      break;
    case 16:
      write(int16_t{0});
      break;
    case 32:
      write(int32_t{0});
      break;
    default:
      write(int64_t{0});
  }
  return result;
}

}  // namespace lance
