#include "functions/remainders.hpp"

#include <type_traits>

#include "base/divisor.hpp"

namespace lance {

Block remainders(Bytes numbers, unsigned bits, bool is_signed, uint64_t divisor) {
  size_t width = bits / 8, count = numbers.size / width;
  Block result(count * width);
  auto write = [&](auto signed_zero) {
    using Signed = decltype(signed_zero);
    using Unsigned = std::make_unsigned_t<Signed>;
    if (is_signed) {
      Divisor(divisor).remainders(numbers.data, count, reinterpret_cast<Signed*>(result.data()));
    } else {
      Divisor(divisor).remainders(numbers.data, count, reinterpret_cast<Unsigned*>(result.data()));
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
