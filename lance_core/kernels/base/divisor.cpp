#include "base/divisor.hpp"

namespace lance {
namespace {

// Smaller integers, with or without a sign, and their products below are exact in doubles.
constexpr unsigned kExactBits = 51;
// A double of this size has no fraction, so adding it rounds. Its bits plus a small integer are the bits of the sum.
constexpr double kRounding = 0x1.8p52;

// Vectors have no instruction of division by integers, and most have none that turns them into floats.
LANCE_MULTIVERSION void write_remainders(int64_t* numbers, size_t count, int64_t divisor) {
  const auto bits = std::bit_cast<int64_t>(kRounding);
  const auto wide = static_cast<double>(divisor);
  const double factor = 1.0 / wide;
  for (size_t i = 0; i < count; ++i) {
    int64_t number = numbers[i];
    double value = std::bit_cast<double>(number + bits) - kRounding;
    double quotient = (value * factor + kRounding) - kRounding;
    int64_t rest = std::bit_cast<int64_t>((value - quotient * wide) + kRounding) - bits;
    int64_t sign = number < 0 ? -1 : 0;  // 0, or -1 with all bits
    rest = (rest ^ sign) - sign;         // of the number without its sign
    rest += rest < 0 ? divisor : 0;      // the quotient was rounded up
    numbers[i] = (rest ^ sign) - sign;
  }
}

LANCE_MULTIVERSION uint64_t union_of(const int64_t* numbers, size_t count) {
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= static_cast<uint64_t>(numbers[i]) + (uint64_t{1} << kExactBits);
  return bits;
}

}  // namespace

bool Divisor::small_remainders(int64_t* numbers, size_t count) const {
  if (divisor_ >> kExactBits != 0 || union_of(numbers, count) >> (kExactBits + 1) != 0) {
    return false;
  }
  write_remainders(numbers, count, static_cast<int64_t>(divisor_));
  return true;
}

}  // namespace lance
