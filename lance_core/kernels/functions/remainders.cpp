#include "functions/remainders.hpp"

#include <type_traits>

#include "base/divisor.hpp"

namespace lance {
namespace {

template <class T>
void write_remainders(const uint8_t* numbers, size_t count, Divisor divisor, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    store(out + i * sizeof(T), divisor.remainder(load<T>(numbers + i * sizeof(T))));
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
