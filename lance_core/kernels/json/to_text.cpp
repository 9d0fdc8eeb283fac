#include "json/to_text.hpp"

#include <charconv>
#include <cmath>
#include <string>

namespace lance {
namespace {

using namespace json;

// Range of numbers written without an exponent, as the power of ten of their first digit.
constexpr int kLeastPlain = -5;
constexpr int kMostPlain = 15;

template <class T>
void append_integer(std::string& out, T value) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

// Writes the fewest digits that read back as the same number, with a point or an exponent to tell it from an integer.
void append_float(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON text has no such numbers
    return;
  }
  if (std::signbit(value)) {
    out += '-';
    value = -value;
  }
  if (value == 0) {
    out += "0.0";
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
    out += digits[0];
    if (digits.size() > 1) {
      out += '.';
      out.append(digits, 1);
    }
    out += exponent < 0 ? "e" : "e+";
    append_integer(out, exponent);
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<size_t>(-exponent - 1), '0');
    out += digits;
  } else {
    size_t whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) {
      out += digits;
      out.append(whole - digits.size(), '0');
      out += ".0";
    } else {
      out.append(digits, 0, whole);
      out += '.';
      out.append(digits, whole);
    }
  }
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void value(const Value& value, int depth) {
    switch (value.type) {
      case kNull:
        constant(value, "null");
        break;
      case kTrue:
        constant(value, "true");
        break;
      case kFalse:
        constant(value, "false");
        break;
      case kString:
        string(value.bytes);
        break;
      case kNumber:
        append_number(out_, read_number(value.bytes));
        break;
      case kContainer:
        container(value, depth);
        break;
      default:
        corrupt("JSON value of unsupported type %08x", value.type);
    }
  }

 private:
  void container(const Value& value, int depth) {
    if (depth == kMaxDepth) {
      corrupt("JSON is nested deeper than %d", kMaxDepth);
    }
    uint32_t count = num_members(value);
    if (is_array(value)) {
      array(Members(value.bytes, count), count, depth);
    } else {
      object(value.bytes, count, depth);
    }
  }

  void array(Members members, uint32_t count, int depth) {
    out_ += '[';
    for (uint32_t i = 0; i < count; ++i) {
      if (i != 0) out_ += ',';
      value(members.next(), depth + 1);
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
      Value key = keys.next();
      if (key.type != kString) {
        corrupt("JSON object has a key that is no string");
      }
      string(key.bytes);
      out_ += ':';
      value(values.next(), depth + 1);
    }
    values.finish();
    out_ += '}';
  }

  void constant(const Value& value, const char* text) {
    if (value.bytes.size != 0) {
      corrupt("JSON %s has %zu bytes", text, value.bytes.size);
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

  std::string& out_;
};

}  // namespace

namespace json {

void append_number(std::string& out, const Number& number) {
  if (const double* value = std::get_if<double>(&number)) {
    append_float(out, *value);
  } else if (const int64_t* integer = std::get_if<int64_t>(&number)) {
    append_integer(out, *integer);
  } else {
    append_integer(out, std::get<uint64_t>(number));
  }
}

void append_text(std::string& out, const Value& value) { Writer(out).value(value, 0); }

}  // namespace json

VariableValues json_text(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values) {
  std::string out;
  auto append = [&](Bytes value, size_t) { append_text(out, root_value(value)); };
  return convert_values<int32_t>(offsets, data, validity, first_bit, num_values, out, append);
}

}  // namespace lance
