#include "codecs/message_fields.hpp"

namespace lance {
namespace {

enum WireType : unsigned { varint = 0, eight_bytes = 1, length_delimited = 2, four_bytes = 5 };

constexpr unsigned kMaxVarintBytes = 10;

class FieldReader {
 public:
  explicit FieldReader(Bytes data) : data_(data) {}

  bool has_more() const { return at_ < data_.size; }

  uint64_t read_varint() {
    uint64_t value = 0;
    for (unsigned n = 0; n < kMaxVarintBytes && at_ < data_.size; n++) {
      uint8_t byte = data_.data[at_++];
      value |= uint64_t{byte & 0x7Fu} << (7 * n);
      if (byte < 0x80) {
        return value;
      }
    }
    corrupt("a number of a message does not end");
  }

  Bytes read(size_t length) {
    Bytes bytes = data_.slice(at_, length);
    at_ += length;
    return bytes;
  }

 private:
  Bytes data_;
  size_t at_ = 0;
};

void add_fields(Bytes message, const std::vector<uint64_t>& path, size_t depth, FieldTotals& totals) {
  FieldReader reader(message);
  while (reader.has_more()) {
    uint64_t tag = reader.read_varint();
    bool is_on_path = tag >> 3 == path[depth];
    bool is_last = depth + 1 == path.size();
    uint64_t value = 0;
    Bytes content;
    switch (tag & 7) {
      case varint:
        value = reader.read_varint();
        break;
      case eight_bytes:
        reader.read(8);
        break;
      case length_delimited:
        content = reader.read(reader.read_varint());
        break;
      case four_bytes:
        reader.read(4);
        break;
      default:
        corrupt("a field of a message has the unknown wire type %u", static_cast<unsigned>(tag & 7));
    }
    if (is_on_path && is_last) {
      totals.count++;
      if (__builtin_add_overflow(totals.sum, value, &totals.sum)) {
        corrupt("a sum over the fields of a message has more than 64 bits");
      }
    } else if (is_on_path) {
      add_fields(content, path, depth + 1, totals);
    }
  }
}

}  // namespace

FieldTotals field_totals(Bytes message, const std::vector<uint64_t>& path) {
  FieldTotals totals;
  add_fields(message, path, 0, totals);
  return totals;
}

}  // namespace lance
