// Reads the fields of a serialized protobuf message, one after the other.
#pragma once

#include "base/common.hpp"

namespace lance {

enum class WireType : unsigned { varint = 0, eight_bytes = 1, length_delimited = 2, four_bytes = 5 };

struct MessageField {
  uint64_t number;
  WireType type;
  uint64_t value = 0;  // of a varint
  Bytes content;       // of a length-delimited field
  Bytes whole;         // all bytes of the field, with its tag
};

class MessageReader {
 public:
  explicit MessageReader(Bytes message) : message_(message) {}

  bool has_more() const { return at_ < message_.size; }

  // Returns the next field. Throws CorruptData.
  MessageField next() {
    size_t begin = at_;
    uint64_t tag = read_varint();
    MessageField field{tag >> 3, static_cast<WireType>(tag & 7), 0, {}, {}};
    if (field.number == 0 || field.number > kMostFields) {
      corrupt("a message with field %llu", static_cast<unsigned long long>(field.number));
    }
    switch (field.type) {
      case WireType::varint:
        field.value = read_varint();
        break;
      case WireType::eight_bytes:
        read(8);
        break;
      case WireType::length_delimited:
        field.content = read(read_varint());
        break;
      case WireType::four_bytes:
        read(4);
        break;
      default:
        corrupt("a field of a message has the unknown wire type %u", static_cast<unsigned>(tag & 7));
    }
    field.whole = message_.slice(begin, at_ - begin);
    return field;
  }

  uint64_t read_varint() {
    uint64_t value = 0;
    for (unsigned n = 0; n < kMaxVarintBytes && at_ < message_.size; n++) {
      uint8_t byte = message_.data[at_++];
      value |= uint64_t{byte & 0x7Fu} << (7 * n);
      if (byte < 0x80) {
        return value;
      }
    }
    corrupt("a number of a message does not end");
  }

 private:
  static constexpr unsigned kMaxVarintBytes = 10;
  static constexpr uint64_t kMostFields = (uint64_t{1} << 29) - 1;

  Bytes read(size_t length) {
    Bytes bytes = message_.slice(at_, length);
    at_ += length;
    return bytes;
  }

  Bytes message_;
  size_t at_ = 0;
};

}  // namespace lance
