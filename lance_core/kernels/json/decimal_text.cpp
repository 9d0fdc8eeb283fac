#include "json/decimal_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

namespace lance {
namespace {

// Bound on exponents of ten: larger ones change no result, and the sum of two cannot overflow.
constexpr int64_t kHugeExponent = int64_t{1} << 40;

// Returns whether a number out of the range of doubles is too large rather than too small.
bool is_large(std::string_view text) {
  size_t mark = std::min(text.find_first_of("eE"), text.size());
  int64_t exponent = 0;
  if (mark != text.size()) {
    std::string_view digits = text.substr(mark + 1);
    if (digits[0] == '+') digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) {
      return digits[0] != '-';
    }
  }
  std::string_view mantissa = text.substr(0, mark);
  auto point = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  auto digit = static_cast<int64_t>(mantissa.find_first_of("123456789"));
  return std::clamp(exponent, -kHugeExponent, kHugeExponent) + point - digit > 0;
}

}  // namespace

double parse_decimal(std::string_view text) {
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc::result_out_of_range) {
    return is_large(text) ? std::numeric_limits<double>::infinity() : 0;
  }
  return value;
}

}  // namespace lance
