#include "functions/base64.hpp"

#include <array>
#include <string>

namespace lance {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 64;

const std::array<uint8_t, 256>& digits() {
  static const std::array<uint8_t, 256> table = [] {
    std::array<uint8_t, 256> made;
    made.fill(kNone);
    for (uint8_t i = 0; i < 64; ++i) made[static_cast<uint8_t>(kAlphabet[i])] = i;
    return made;
  }();
  return table;
}

// Builds values of variable length from `append(value, number, out)`.
template <class Append>
VariableValues convert(Bytes offsets, Bytes data, size_t num_values, Append append) {
  check_offsets(offsets, num_values, data.size, 64);
  VariableValues result;
  result.num_values = num_values;
  result.offsets = Block((num_values + 1) * sizeof(uint64_t));
  store<uint64_t>(result.offsets.data(), 0);
  std::string out;
  for (size_t i = 0; i < num_values; ++i) {
    auto start = load<uint64_t>(offsets.data + i * sizeof(uint64_t));
    auto end = load<uint64_t>(offsets.data + (i + 1) * sizeof(uint64_t));
    append(data.slice(start, end - start), i, out);
    store<uint64_t>(result.offsets.data() + (i + 1) * sizeof(uint64_t), out.size());
  }
  result.data = Block(out.size());
  copy_bytes(result.data.data(), out.data(), out.size());
  return result;
}

}  // namespace

VariableValues encode_base64(Bytes offsets, Bytes data, size_t num_values, bool padding) {
  return convert(offsets, data, num_values, [padding](Bytes value, size_t, std::string& out) {
    for (size_t at = 0; at < value.size; at += 3) {
      size_t count = value.size - at < 3 ? value.size - at : 3;
      uint32_t word = 0;
      for (size_t i = 0; i < 3; ++i) word = word << 8 | (i < count ? value.data[at + i] : 0u);
      for (size_t i = 0; i < 4; ++i) {
        if (i <= count) {
          out += kAlphabet[word >> (18 - 6 * i) & 63];
        } else if (padding) {
          out += '=';
        }
      }
    }
  });
}

VariableValues decode_base64(Bytes offsets, Bytes data, size_t num_values, bool required) {
  const auto& table = digits();
  return convert(offsets, data, num_values, [&](Bytes text, size_t number, std::string& out) {
    size_t length = text.size;
    while (length > 0 && text.size - length < 2 && text.data[length - 1] == '=') --length;
    size_t missing = (4 - length % 4) % 4;
    bool padded = text.size - length == missing;
    bool is_bare = text.size == length && !required;
    uint32_t word = 0;
    unsigned num_bits = 0;
    bool good = missing != 3 && (padded || is_bare);
    for (size_t i = 0; good && i < length; ++i) {
      uint8_t digit = table[text.data[i]];
      good = digit != kNone;
      word = word << 6 | digit;
      num_bits += 6;
      if (num_bits >= 8) {
        num_bits -= 8;
        out += static_cast<char>(word >> num_bits);
        word &= (1u << num_bits) - 1;
      }
    }
    if (!good || word != 0) no_result("value %zu is no base64", number);
  });
}

}  // namespace lance
