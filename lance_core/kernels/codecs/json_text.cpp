#include "codecs/json_text.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "codecs/json_binary.hpp"

namespace lance {
namespace {

using namespace json;

// Range of numbers written without an exponent, as the power of ten of their first digit.
constexpr int kLeastPlain = -5;
constexpr int kMostPlain = 15;

template <class T>
T load_big_endian(const uint8_t* p) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | p[i]);
  }
  return value;
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  // Writes a whole value. Its outermost container may hold one scalar.
  void value(Bytes bytes) {
    if (bytes.size == 0) {
      out_ += "null";
      return;
    }
    uint32_t header = read(bytes, 0);
    if ((header & kKindMask) != kScalar) {
      container(bytes, 0);
      return;
    }
    if ((header & kCountMask) > 1) {
      corrupt("JSON scalar of %u values", header & kCountMask);
    }
    Members members(bytes, 1);
    member(members.next(), 0);
    members.finish();
  }

 private:
  struct Member {
    uint32_t type;
    Bytes bytes;
  };

  // Iterates over the entries of a container and the bytes of its members.
  class Members {
   public:
    Members(Bytes bytes, uint64_t num_entries) : bytes_(bytes) {
      if (num_entries * kEntryBytes > bytes.size - kEntryBytes) {
        corrupt("JSON container of %zu bytes has no room for %llu entries", bytes.size,
                static_cast<unsigned long long>(num_entries));
      }
      position_ = kEntryBytes * (1 + num_entries);
    }
    Member next() {
      entry_ += kEntryBytes;
      uint32_t entry = read(bytes_, entry_);
      Member member{entry & kTypeMask, bytes_.slice(position_, entry & kLengthMask)};
      position_ += member.bytes.size;
      return member;
    }
    void finish() const {
      if (position_ != bytes_.size) {
        corrupt("JSON container ends at %zu of %zu bytes", position_, bytes_.size);
      }
    }

   private:
    Bytes bytes_;
    size_t entry_ = 0;
    size_t position_ = 0;
  };

  static uint32_t read(Bytes bytes, size_t at) { return load_big_endian<uint32_t>(bytes.slice(at, kEntryBytes).data); }

  void container(Bytes bytes, int depth) {
    if (depth == kMaxDepth) {
      corrupt("JSON is nested deeper than %d", kMaxDepth);
    }
    uint32_t header = read(bytes, 0);
    uint32_t count = header & kCountMask;
    switch (header & kKindMask) {
      case kArray:
        array(Members(bytes, count), count, depth);
        break;
      case kObject:
        object(bytes, count, depth);
        break;
      default:
        corrupt("JSON container of an unknown kind, header %08x", header);
    }
  }

  void array(Members members, uint32_t count, int depth) {
    out_ += '[';
    for (uint32_t i = 0; i < count; ++i) {
      if (i != 0) out_ += ',';
      member(members.next(), depth + 1);
    }
    members.finish();
    out_ += ']';
  }

  void object(Bytes bytes, uint32_t count, int depth) {
    // Two iterators: the values begin where the keys end.
    Members keys(bytes, 2 * uint64_t{count});
    Members values = keys;
    for (uint32_t i = 0; i < count; ++i) {
      values.next();
    }
    out_ += '{';
    for (uint32_t i = 0; i < count; ++i) {
      if (i != 0) out_ += ',';
      Member key = keys.next();
      if (key.type != kString) {
        corrupt("JSON object has a key that is no string");
      }
      string(key.bytes);
      out_ += ':';
      member(values.next(), depth + 1);
    }
    values.finish();
    out_ += '}';
  }

  void member(Member member, int depth) {
    switch (member.type) {
      case kNull:
        constant(member, "null");
        break;
      case kTrue:
        constant(member, "true");
        break;
      case kFalse:
        constant(member, "false");
        break;
      case kString:
        string(member.bytes);
        break;
      case kNumber:
        number(member.bytes);
        break;
      case kContainer:
        container(member.bytes, depth);
        break;
      default:
        corrupt("JSON value of unsupported type %08x", member.type);
    }
  }

  void constant(Member member, const char* text) {
    if (member.bytes.size != 0) {
      corrupt("JSON %s has %zu bytes", text, member.bytes.size);
    }
    out_ += text;
  }

  void string(Bytes bytes) {
    static constexpr char kHex[] = "0123456789abcdef";
    out_ += '"';
    size_t plain = 0;  // start of the bytes that need no escape and are not written yet
    for (size_t i = 0; i < bytes.size; ++i) {
      uint8_t byte = bytes.data[i];
      if (byte >= 0x20 && byte != '"' && byte != '\\') {
        continue;
      }
      append(bytes, plain, i);
      plain = i + 1;
      out_ += '\\';
      switch (byte) {
        case '\b':
          out_ += 'b';
          break;
        case '\t':
          out_ += 't';
          break;
        case '\n':
          out_ += 'n';
          break;
        case '\f':
          out_ += 'f';
          break;
        case '\r':
          out_ += 'r';
          break;
        case '"':
        case '\\':
          out_ += static_cast<char>(byte);
          break;
        default:
          out_ += "u00";
          out_ += kHex[byte >> 4];
          out_ += kHex[byte & 15];
      }
    }
    append(bytes, plain, bytes.size);
    out_ += '"';
  }

  void append(Bytes bytes, size_t from, size_t to) {
    if (to > from) {
      out_.append(reinterpret_cast<const char*>(bytes.data) + from, to - from);
    }
  }

  void number(Bytes bytes) {
    if (bytes.size == 0) {
      corrupt("JSON number has no bytes");
    }
    const uint8_t* p = bytes.data + 1;
    size_t width = bytes.size - 1;
    switch (bytes.data[0]) {
      case kZero:
        require_width(width, 0);
        out_ += '0';
        break;
      case kNaN:
      case kInfinity:
      case kMinusInfinity:
        require_width(width, 0);
        out_ += "null";  // JSON text has no such numbers
        break;
      case kSigned:
        switch (width) {
          case 1:
            integer(static_cast<int8_t>(*p));
            break;
          case 2:
            integer(static_cast<int16_t>(load_big_endian<uint16_t>(p)));
            break;
          case 4:
            integer(static_cast<int32_t>(load_big_endian<uint32_t>(p)));
            break;
          default:
            require_width(width, 8);
            integer(static_cast<int64_t>(load_big_endian<uint64_t>(p)));
        }
        break;
      case kUnsigned:
        switch (width) {
          case 1:
            integer(*p);
            break;
          case 2:
            integer(load_big_endian<uint16_t>(p));
            break;
          case 4:
            integer(load_big_endian<uint32_t>(p));
            break;
          default:
            require_width(width, 8);
            integer(load_big_endian<uint64_t>(p));
        }
        break;
      case kFloat:
        require_width(width, 8);
        floating(std::bit_cast<double>(load_big_endian<uint64_t>(p)));
        break;
      default:
        corrupt("JSON number of unsupported type %02x", bytes.data[0]);
    }
  }

  static void require_width(size_t width, size_t expected) {
    if (width != expected) {
      corrupt("JSON number has %zu bytes, expected %zu", width, expected);
    }
  }

  template <class T>
  void integer(T value) {
    char text[24];
    auto end = std::to_chars(text, text + sizeof text, value).ptr;
    out_.append(text, end);
  }

  // Writes the fewest digits that read back as the same number, with a point or an exponent to tell it from an integer.
  void floating(double value) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    if (std::signbit(value)) {
      out_ += '-';
      value = -value;
    }
    if (value == 0) {
      out_ += "0.0";
      return;
    }
    char text[32];
    char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    char* mark = text + 1;
    while (*mark != 'e') ++mark;
    std::string digits(1, text[0]);
    if (mark > text + 1) {
      digits.append(text + 2, mark);
    }
    int exponent = 0;
    const char* first = mark[1] == '+' ? mark + 2 : mark + 1;
    std::from_chars(first, end, exponent);
    if (exponent < kLeastPlain || exponent > kMostPlain) {
      out_ += digits[0];
      if (digits.size() > 1) {
        out_ += '.';
        out_.append(digits, 1);
      }
      out_ += exponent < 0 ? "e" : "e+";
      integer(exponent);
    } else if (exponent < 0) {
      out_ += "0.";
      out_.append(static_cast<size_t>(-exponent - 1), '0');
      out_ += digits;
    } else {
      size_t whole = static_cast<size_t>(exponent) + 1;
      if (digits.size() <= whole) {
        out_ += digits;
        out_.append(whole - digits.size(), '0');
        out_ += ".0";
      } else {
        out_.append(digits, 0, whole);
        out_ += '.';
        out_.append(digits, whole);
      }
    }
  }

  std::string& out_;
};

}  // namespace

VariableValues json_text(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values) {
  std::string out;
  Writer writer(out);
  auto append = [&](Bytes value, size_t) { writer.value(value); };
  return convert_values<int32_t>(offsets, data, validity, first_bit, num_values, out, append);
}

}  // namespace lance
