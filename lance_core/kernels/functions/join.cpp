#include "functions/join.hpp"

#include "base/copies.hpp"

namespace lance {
namespace {

// More bytes than any memory has.
constexpr size_t kMostBytes = size_t{1} << 46;

template <class T>
void join_rows(const std::vector<JoinedTexts>& operands, size_t num_values, VariableValues& result) {
  uint8_t* offsets = result.offsets.data();
  uint8_t* to = result.data.data();
  store(offsets, T{0});
  for (size_t i = 0; i < num_values; ++i) {
    for (const JoinedTexts& operand : operands) {
      size_t begin = 0, end = operand.data.size;
      if (operand.offsets.data != nullptr) {
        begin = load<T>(operand.offsets.data + i * sizeof(T));
        end = load<T>(operand.offsets.data + (i + 1) * sizeof(T));
      }
      to = copy_part(to, operand.data, begin, end);
    }
    store(offsets + (i + 1) * sizeof(T), static_cast<T>(to - result.data.data()));
  }
}

}  // namespace

VariableValues join_texts(const std::vector<JoinedTexts>& operands, size_t num_values, unsigned offset_bits) {
  size_t size = 0;
  for (const JoinedTexts& operand : operands) {
    size_t more = operand.data.size;
    if (operand.offsets.data != nullptr) {
      check_offsets(operand.offsets, num_values, operand.data.size, offset_bits);
      OffsetReader offset(operand.offsets.data, offset_bits);
      more = offset[num_values] - offset[0];
    } else if (more > 0 && num_values > kMostBytes / more) {
      throw OffsetOverflow("texts of too many bytes");
    } else {
      more *= num_values;
    }
    size += more;
    if (size > (offset_bits == 32 ? size_t{INT32_MAX} : kMostBytes)) {
      throw OffsetOverflow("texts of too many bytes");
    }
  }
  VariableValues result{Block((num_values + 1) * offset_bytes(offset_bits)), Block(size + kCopySlack), num_values};
  if (offset_bits == 32) {
    join_rows<uint32_t>(operands, num_values, result);
  } else {
    join_rows<uint64_t>(operands, num_values, result);
  }
  result.data.resize(size);
  return result;
}

}  // namespace lance
