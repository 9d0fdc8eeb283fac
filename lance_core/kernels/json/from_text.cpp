#include "json/from_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "json/binary.hpp"
#include "json/decimal_text.hpp"

namespace lance {
namespace {

using namespace json;

__extension__ using Uint128 = unsigned __int128;

constexpr size_t kUnicodeDigits = 4;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
// Largest text in bytes. Its length fits into an entry, and no number here can overflow.
constexpr size_t kMaxText = kLengthMask;

template <class T>
void append_big_endian(std::string& out, T value) {
  for (size_t i = sizeof(T); i-- > 0;) {
    out += static_cast<char>(value >> (8 * i));
  }
}

bool is_digit(int byte) { return byte >= '0' && byte <= '9'; }

int hex_value(int byte) {
  if (is_digit(byte)) return byte - '0';
  int lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// A range of `bytes_`, which has the bytes of strings and numbers.
struct Part {
  uint32_t start = 0;
  uint32_t size = 0;
};

// A value. Members of a container are linked in the order in which they are written.
struct Node {
  uint32_t type = kNull;
  uint32_t kind = 0;  // of a container
  uint32_t first = kNone;
  uint32_t next = kNone;
  uint32_t count = 0;
  Part bytes;
  Part key;  // of a member of an object
};

// Parses one text at a time into nodes, and writes them. Memory is reused for the next text.
class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  void encode(std::string_view text, size_t index) {
    text_ = text;
    index_ = index;
    at_ = 0;
    nodes_.clear();
    bytes_.clear();
    uint32_t root = value(0);
    skip_blanks();
    if (at_ != text_.size()) refuse("text after the value");
    if (nodes_[root].type == kContainer) {
      write_container(nodes_[root]);
      return;
    }
    append_big_endian(out_, kScalar);
    size_t entry = reserve(1);
    write(nodes_[root], entry);
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    corrupt("value %zu is no JSON: %s at byte %zu", index_, what, at_);
  }

  // Returns the next byte, or -1 at the end.
  int peek() const { return at_ < text_.size() ? static_cast<uint8_t>(text_[at_]) : -1; }

  int take() {
    int byte = peek();
    if (byte < 0) refuse("the end");
    ++at_;
    return byte;
  }

  bool accept(char byte) {
    if (peek() != byte) return false;
    ++at_;
    return true;
  }

  // Skips blanks, and the escapes that the reference treats as blanks.
  void skip_blanks() {
    while (at_ < text_.size()) {
      std::string_view rest = text_.substr(at_);
      if (std::string_view(" \t\n\f\r").find(rest[0]) != std::string_view::npos) {
        at_ += 1;
      } else if (rest.starts_with("\\n") || rest.starts_with("\\r") || rest.starts_with("\\t")) {
        at_ += 2;
      } else if (rest.starts_with("\\x0C")) {
        at_ += 4;
      } else {
        return;
      }
    }
  }

  // Accepts a word in any mixture of cases.
  bool accept_word(std::string_view lower) {
    if (text_.size() - at_ < lower.size()) return false;
    for (size_t i = 0; i < lower.size(); ++i) {
      if ((text_[at_ + i] | 0x20) != lower[i]) return false;
    }
    at_ += lower.size();
    return true;
  }

  uint32_t add(Node node) {
    nodes_.push_back(node);
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  uint32_t value(int depth) {
    skip_blanks();
    int byte = peek();
    switch (byte) {
      case -1:
        return add({});  // an empty text is null
      case '"':
      case '\'':
        ++at_;
        return add({.type = kString, .bytes = quoted(static_cast<char>(byte))});
      case '[':
        ++at_;
        return array(depth);
      case '{':
        ++at_;
        return object(depth);
      case 'n':
      case 'N':
        if (accept_word("null")) return add({});
        if (accept_word("nan")) return number_of(std::numeric_limits<double>::quiet_NaN());
        break;
      case 't':
      case 'T':
        if (accept_word("true")) return add({.type = kTrue});
        break;
      case 'f':
      case 'F':
        if (accept_word("false")) return add({.type = kFalse});
        break;
      case 'i':
      case 'I':
        if (accept_word("infinity")) return number_of(std::numeric_limits<double>::infinity());
        break;
      default:
        if (is_digit(byte) || byte == '-' || byte == '+' || byte == '.') return number();
    }
    refuse("no value");
  }

  uint32_t open(uint32_t kind, int depth) {
    if (depth == kMaxDepth) corrupt("value %zu: JSON is nested deeper than %d", index_, kMaxDepth);
    return add({.type = kContainer, .kind = kind});
  }

  uint32_t array(int depth) {
    uint32_t self = open(kArray, depth);
    uint32_t last = kNone;
    for (bool first = true;; first = false) {
      skip_blanks();
      if (accept(']')) return self;
      if (!first && !accept(',')) refuse(peek() < 0 ? "the end" : "no comma between items");
      skip_blanks();
      int byte = peek();
      uint32_t item = byte == ',' || byte == ']' ? add({}) : value(depth + 1);  // a left-out item is null
      (last == kNone ? nodes_[self].first : nodes_[last].next) = item;
      last = item;
      ++nodes_[self].count;
    }
  }

  uint32_t object(int depth) {
    uint32_t self = open(kObject, depth);
    size_t base = members_.size();
    for (bool first = true;; first = false) {
      skip_blanks();
      if (accept('}')) break;
      if (!first && !accept(',')) refuse(peek() < 0 ? "the end" : "no comma between members");
      skip_blanks();
      Part key = accept('"') ? quoted('"') : accept('\'') ? quoted('\'') : bare_key();
      skip_blanks();
      if (!accept(':')) refuse(peek() < 0 ? "the end" : "no colon after a key");
      uint32_t member = value(depth + 1);
      nodes_[member].key = key;
      members_.push_back(member);
    }
    std::sort(members_.begin() + static_cast<ptrdiff_t>(base), members_.end(),
              [this](uint32_t a, uint32_t b) { return view(nodes_[a].key) < view(nodes_[b].key); });
    for (size_t i = base; i < members_.size(); ++i) {
      Node& member = nodes_[members_[i]];
      if (i > base && view(nodes_[members_[i - 1]].key) == view(member.key)) refuse("a repeated key");
      (i == base ? nodes_[self].first : nodes_[members_[i - 1]].next) = members_[i];
    }
    nodes_[self].count = static_cast<uint32_t>(members_.size() - base);
    members_.resize(base);
    return self;
  }

  std::string_view view(Part part) const { return std::string_view(bytes_).substr(part.start, part.size); }

  Part since(size_t start) const {
    return {static_cast<uint32_t>(start), static_cast<uint32_t>(bytes_.size() - start)};
  }

  Part bare_key() {
    size_t start = at_;
    if (is_digit(peek())) refuse("a key without quotes that begins with a digit");
    auto belongs = [](int byte) {
      return is_digit(byte) || byte == '_' || byte == '$' || byte >= 0x80 ||
             ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
    };
    while (belongs(peek())) ++at_;
    if (at_ == start) refuse("no key");
    size_t from = bytes_.size();
    bytes_ += text_.substr(start, at_ - start);
    return since(from);
  }

  // Reads a string whose first quote is already read.
  Part quoted(char quote) {
    size_t from = bytes_.size();
    size_t plain = at_;  // start of the bytes that are not copied yet
    while (true) {
      int byte = take();
      if (byte != quote && byte != '\\') continue;
      bytes_ += text_.substr(plain, at_ - 1 - plain);
      if (byte == quote) return since(from);
      escape();
      plain = at_;
    }
  }

  void escape() {
    int byte = take();
    switch (byte) {
      case '\\':
      case '"':
      case '/':
        bytes_ += static_cast<char>(byte);
        return;
      case 'b':
        bytes_ += '\b';
        return;
      case 'f':
        bytes_ += '\f';
        return;
      case 'n':
        bytes_ += '\n';
        return;
      case 'r':
        bytes_ += '\r';
        return;
      case 't':
        bytes_ += '\t';
        return;
      case 'u':
        unicode();
        return;
      default:
        refuse("an unknown escape");
    }
  }

  struct Escape {
    uint32_t code;
    std::string_view digits;
  };

  // Reads the part after `\u`: four digits, with or without braces.
  Escape digits() {
    bool braces = accept('{');
    Escape escape{0, text_.substr(at_, kUnicodeDigits)};
    for (size_t i = 0; i < kUnicodeDigits; ++i) {
      int digit = hex_value(take());
      if (digit < 0) refuse("no hexadecimal digit");
      escape.code = escape.code << 4 | static_cast<uint32_t>(digit);
    }
    if (braces && !accept('}')) refuse("no closing brace");
    return escape;
  }

  // Half of a surrogate pair stays as the six characters of its escape.
  void unicode() {
    Escape first = digits();
    auto keep = [this](Escape escape) { bytes_.append("\\u").append(escape.digits); };
    if (first.code < 0xD800 || first.code > 0xDFFF) {
      append_utf8(first.code);
    } else if (first.code >= 0xDC00 || !text_.substr(at_).starts_with("\\u")) {
      keep(first);
    } else {
      at_ += 2;
      Escape second = digits();
      if (second.code >= 0xDC00 && second.code <= 0xDFFF) {
        append_utf8(0x10000 + ((first.code - 0xD800) << 10 | (second.code - 0xDC00)));
      } else {
        keep(first);
        keep(second);
      }
    }
  }

  void append_utf8(uint32_t code) {
    auto tail = [&](unsigned shift) { bytes_ += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      bytes_ += static_cast<char>(code);
    } else if (code < 0x800) {
      bytes_ += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      bytes_ += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      bytes_ += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  size_t take_digits() {
    size_t start = at_;
    while (is_digit(peek())) ++at_;
    return at_ - start;
  }

  // Integers of 64 bits stay integers. All other numbers become doubles.
  uint32_t number() {
    bool negative = peek() == '-';
    if (negative || peek() == '+') ++at_;
    size_t start = at_;
    while (accept('0')) {
    }
    size_t num_zeros = at_ - start;
    size_t first_digit = at_;
    size_t num_digits = take_digits();
    bool is_whole = true;
    bool has_point = accept('.');
    if (has_point) {
      size_t num_decimals = take_digits();
      is_whole = num_decimals == 0;
      num_digits += num_decimals;
    }
    if (num_zeros == 0 && num_digits == 0) {
      if (!has_point && accept_word("infinity")) {
        double infinity = std::numeric_limits<double>::infinity();
        return number_of(negative ? -infinity : infinity);
      }
      if (!has_point && !negative && accept_word("nan")) return number_of(std::numeric_limits<double>::quiet_NaN());
      refuse("no number");
    }
    if (num_zeros == 1 && num_digits == 0 && !has_point && (accept('x') || accept('X'))) return hexadecimal(negative);
    if (accept('e') || accept('E')) {
      is_whole = false;
      if (!accept('+')) accept('-');
      if (take_digits() == 0) refuse("an exponent without digits");
    }
    const char* end = text_.data() + at_;
    if (is_whole) {
      uint64_t magnitude = 0;
      bool fits = num_digits == 0 || std::from_chars(text_.data() + first_digit, end, magnitude).ec == std::errc();
      if (fits && !negative) return unsigned_number(magnitude);
      if (fits && magnitude <= uint64_t{1} << 63) return signed_number(static_cast<int64_t>(-magnitude));
    }
    double value = parse_decimal(text_.substr(start, at_ - start));
    return number_of(negative ? -value : value);
  }

  uint32_t hexadecimal(bool negative) {
    Uint128 whole = hex_digits();
    if (accept('.')) {
      size_t start = at_;
      auto fraction = static_cast<double>(hex_digits());
      int bits = static_cast<int>(std::min<size_t>(4 * (at_ - start), 1 << 20));
      double value = static_cast<double>(whole) + fraction / std::ldexp(1.0, bits);
      return number_of(negative ? -value : value);
    }
    constexpr Uint128 kLimit = Uint128{1} << 63;
    if (negative && whole <= kLimit) return signed_number(static_cast<int64_t>(-static_cast<uint64_t>(whole)));
    if (!negative && whole <= std::numeric_limits<uint64_t>::max())
      return unsigned_number(static_cast<uint64_t>(whole));
    auto value = static_cast<double>(whole);
    return number_of(negative ? -value : value);
  }

  Uint128 hex_digits() {
    Uint128 value = 0;
    size_t start = at_;
    for (int digit = hex_value(peek()); digit >= 0; digit = hex_value(peek())) {
      if (value >> 124 != 0) refuse("a number of more than 128 bits");
      value = value << 4 | static_cast<unsigned>(digit);
      ++at_;
    }
    if (at_ == start) refuse("no hexadecimal digit");
    return value;
  }

  // Adds a number: its type and big-endian bytes.
  template <class T>
  uint32_t add_number(uint8_t type, T bits) {
    size_t start = bytes_.size();
    bytes_ += static_cast<char>(type);
    append_big_endian(bytes_, bits);
    return add({.type = kNumber, .bytes = since(start)});
  }

  uint32_t add_number(uint8_t type) {
    bytes_ += static_cast<char>(type);
    return add({.type = kNumber, .bytes = since(bytes_.size() - 1)});
  }

  uint32_t unsigned_number(uint64_t value) {
    if (value == 0) return add_number(kZero);
    if (value <= std::numeric_limits<uint8_t>::max()) return add_number(kUnsigned, static_cast<uint8_t>(value));
    if (value <= std::numeric_limits<uint16_t>::max()) return add_number(kUnsigned, static_cast<uint16_t>(value));
    if (value <= std::numeric_limits<uint32_t>::max()) return add_number(kUnsigned, static_cast<uint32_t>(value));
    return add_number(kUnsigned, value);
  }

  // Adds a number that is not positive.
  uint32_t signed_number(int64_t value) {
    if (value == 0) return add_number(kZero);
    if (value >= std::numeric_limits<int8_t>::min()) return add_number(kSigned, static_cast<uint8_t>(value));
    if (value >= std::numeric_limits<int16_t>::min()) return add_number(kSigned, static_cast<uint16_t>(value));
    if (value >= std::numeric_limits<int32_t>::min()) return add_number(kSigned, static_cast<uint32_t>(value));
    return add_number(kSigned, static_cast<uint64_t>(value));
  }

  uint32_t number_of(double value) {
    if (std::isnan(value)) return add_number(kNaN);
    if (std::isinf(value)) return add_number(value < 0 ? kMinusInfinity : kInfinity);
    return add_number(kFloat, std::bit_cast<uint64_t>(value));
  }

  // Reserves space for entries and returns its position.
  size_t reserve(size_t num_entries) {
    size_t start = out_.size();
    out_.append(num_entries * kEntryBytes, '\0');
    return start;
  }

  void write_entry(size_t at, uint32_t type, size_t length) {
    if (length > kLengthMask) corrupt("value %zu: JSON with a part of %zu bytes", index_, length);
    uint32_t entry = type | static_cast<uint32_t>(length);
    for (size_t i = 0; i < kEntryBytes; ++i) {
      out_[at + i] = static_cast<char>(entry >> (24 - 8 * i));
    }
  }

  void write(const Node& node, size_t entry) {
    size_t start = out_.size();
    if (node.type == kContainer) {
      write_container(node);
    } else {
      out_ += view(node.bytes);
    }
    write_entry(entry, node.type, out_.size() - start);
  }

  void write_container(const Node& node) {
    append_big_endian(out_, node.kind | node.count);
    size_t entry = reserve(size_t{node.count} * (node.kind == kObject ? 2 : 1));
    if (node.kind == kObject) {
      for (uint32_t i = node.first; i != kNone; i = nodes_[i].next, entry += kEntryBytes) {
        out_ += view(nodes_[i].key);
        write_entry(entry, kString, nodes_[i].key.size);
      }
    }
    for (uint32_t i = node.first; i != kNone; i = nodes_[i].next, entry += kEntryBytes) {
      write(nodes_[i], entry);
    }
  }

  std::string& out_;
  std::string_view text_;
  size_t index_ = 0;
  size_t at_ = 0;
  std::vector<Node> nodes_;
  std::vector<uint32_t> members_;
  std::string bytes_;
};

}  // namespace

VariableValues json_binary(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values) {
  std::string out;
  Encoder encoder(out);
  auto append = [&](Bytes text, size_t i) {
    if (text.size > kMaxText) {
      corrupt("value %zu is JSON of %zu bytes, which is more than %zu", i, text.size, kMaxText);
    }
    encoder.encode({reinterpret_cast<const char*>(text.data), text.size}, i);
  };
  return convert_values<uint64_t>(offsets, data, validity, first_bit, num_values, out, append);
}

}  // namespace lance
