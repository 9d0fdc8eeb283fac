#include "json/columns.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "json/decimal_text.hpp"
#include "json/path.hpp"
#include "json/to_text.hpp"

namespace lance {

namespace {

using namespace json;

class Bits {
 public:
  explicit Bits(size_t num_bits) : block_(ceil8(num_bits)) { std::fill_n(block_.data(), block_.size(), uint8_t{0}); }
  void set(size_t i) { block_.data()[i / 8] = static_cast<uint8_t>(block_.data()[i / 8] | 1 << (i % 8)); }
  Block take() { return std::move(block_); }

 private:
  Block block_;
};

// Checks the number of values against the bytes of the offsets, before memory for results is allocated.
void check_size(const JsonColumn& column) {
  if (column.num_values >= std::numeric_limits<size_t>::max() / sizeof(uint64_t) - 1) {
    corrupt("a JSON column of %zu values", column.num_values);
  }
  column.offsets.slice(0, (column.num_values + 1) * sizeof(uint64_t));
}

// Calls `visit(i, document)` for each value that is not null. The caller has called check_size.
template <class Visit>
void for_each_document(const JsonColumn& column, Visit visit) {
  for (size_t i = 0; i < column.num_values; ++i) {
    if (!is_valid(column.validity, column.first_bit + i)) continue;
    auto start = load<uint64_t>(column.offsets.data + i * sizeof(uint64_t));
    auto end = load<uint64_t>(column.offsets.data + (i + 1) * sizeof(uint64_t));
    if (start > end) {
      corrupt("offsets of value %zu fall", i);
    }
    visit(i, root_value(column.data.slice(start, end - start)));
  }
}

// Builds values of variable length from `append(i, document, out)`, which returns whether there is a result.
template <class Offset, class Append>
NullableVariable variable_results(const JsonColumn& column, Append append) {
  check_size(column);
  std::string out;
  Bits validity(column.num_values);
  std::vector<Offset> ends;
  ends.reserve(column.num_values + 1);
  auto fill_to = [&](size_t count) { ends.resize(count, static_cast<Offset>(out.size())); };
  fill_to(1);
  for_each_document(column, [&](size_t i, const Value& document) {
    fill_to(i + 1);
    if (append(i, document, out)) validity.set(i);
    if (out.size() > static_cast<uint64_t>(std::numeric_limits<Offset>::max())) {
      throw OffsetOverflow("JSON values of more than 2 GiB");
    }
    ends.push_back(static_cast<Offset>(out.size()));
  });
  fill_to(column.num_values + 1);
  NullableVariable result;
  result.values.num_values = column.num_values;
  result.values.offsets = Block(ends.size() * sizeof(Offset));
  copy_bytes(result.values.offsets.data(), ends.data(), ends.size() * sizeof(Offset));
  result.values.data = Block(out.size());
  copy_bytes(result.values.data.data(), out.data(), out.size());
  result.validity = validity.take();
  return result;
}

// Builds bits from `test(i, document)`, which returns an optional bool.
template <class Test>
NullableValues bit_results(const JsonColumn& column, Test test) {
  check_size(column);
  Bits values(column.num_values), validity(column.num_values);
  for_each_document(column, [&](size_t i, const Value& document) {
    std::optional<bool> result = test(i, document);
    if (result.value_or(false)) values.set(i);
    if (result.has_value()) validity.set(i);
  });
  return {values.take(), validity.take()};
}

// Builds values of type T from `convert(i, document)`, which returns an optional T.
template <class T, class Convert>
NullableValues fixed_results(const JsonColumn& column, Convert convert) {
  check_size(column);
  Block values(column.num_values * sizeof(T));
  std::fill_n(values.data(), values.size(), uint8_t{0});
  Bits validity(column.num_values);
  for_each_document(column, [&](size_t i, const Value& document) {
    if (std::optional<T> result = convert(i, document)) {
      store<T>(values.data() + i * sizeof(T), *result);
      validity.set(i);
    }
  });
  return {std::move(values), validity.take()};
}

void append_word(std::string& out, uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
}

void append_bytes(std::string& out, Bytes bytes) {
  if (bytes.size != 0) out.append(reinterpret_cast<const char*>(bytes.data), bytes.size);
}

void append_entry(std::string& out, const Value& value) {
  if (value.bytes.size > kLengthMask) {
    no_result("JSON with a part of %zu bytes", value.bytes.size);
  }
  append_word(out, value.type | static_cast<uint32_t>(value.bytes.size));
}

// Appends a value as binary JSON.
void append_document(std::string& out, const Value& value) {
  if (value.type == kContainer) {
    append_bytes(out, value.bytes);
    return;
  }
  append_word(out, kScalar);
  append_entry(out, value);
  append_bytes(out, value.bytes);
}

void append_array(std::string& out, const std::vector<Value>& items) {
  append_word(out, kArray | static_cast<uint32_t>(items.size()));
  for (const Value& item : items) append_entry(out, item);
  for (const Value& item : items) append_bytes(out, item.bytes);
}

std::string_view text_of(const Value& value) {
  return {reinterpret_cast<const char*>(value.bytes.data), value.bytes.size};
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

// Returns the number that a text is: a sign, digits with a point and an exponent, or `inf`, `infinity` or `nan`.
std::optional<double> text_as_float(std::string_view text) {
  bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  auto digits = [&text](size_t from) {
    size_t end = std::min(text.find_first_not_of("0123456789", from), text.size());
    return end - from;
  };
  double value = 0;
  if (equals_ignoring_case(text, "inf") || equals_ignoring_case(text, "infinity")) {
    value = std::numeric_limits<double>::infinity();
  } else if (equals_ignoring_case(text, "nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    size_t count = digits(0);
    size_t at = count;
    if (at < text.size() && text[at] == '.') {
      size_t decimals = digits(at + 1);
      count += decimals;
      at += 1 + decimals;
    }
    if (count == 0) return std::nullopt;
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      size_t exponent = digits(at);
      if (exponent == 0) return std::nullopt;
      at += exponent;
    }
    if (at != text.size()) return std::nullopt;
    value = parse_decimal(text);
  }
  return negative ? -value : value;
}

std::optional<int64_t> rounded(double value) {
  value = std::round(value);
  constexpr double kLimit = 0x1p63;
  if (!(value >= -kLimit && value < kLimit)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> number_as_integer(const Number& number) {
  if (const double* value = std::get_if<double>(&number)) return rounded(*value);
  if (const int64_t* value = std::get_if<int64_t>(&number)) return *value;
  uint64_t value = std::get<uint64_t>(number);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> text_as_integer(std::string_view text) {
  std::string_view digits = text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  std::optional<double> number = text_as_float(text);
  return number ? rounded(*number) : std::nullopt;
}

[[noreturn]] void refuse(size_t i, const Value& value, const char* target) {
  std::string text;
  append_text(text, value);
  constexpr size_t kMost = 40;
  if (text.size() > kMost) {
    text.resize(kMost - 3);
    text += "...";
  }
  // The bytes of strings may be invalid UTF-8, and may be cut.
  std::replace_if(text.begin(), text.end(), [](char byte) { return (byte & 0x80) != 0; }, '?');
  no_result("JSON value %zu, %s, cannot become %s", i, text.c_str(), target);
}

}  // namespace

NullableVariable json_values_at(const JsonColumn& column, std::string_view path) {
  Steps steps = parse_path(path);
  std::vector<Value> found;
  return variable_results<int64_t>(column, [&](size_t, const Value& document, std::string& out) {
    select_values(document, steps, found);
    if (found.size() == 1) {
      append_document(out, found[0]);
    } else if (!found.empty()) {
      append_array(out, found);
    }
    return !found.empty();
  });
}

NullableValues json_exists(const JsonColumn& column, std::string_view path) {
  Steps steps = parse_path(path);
  std::vector<Value> found;
  return bit_results(column, [&](size_t, const Value& document) -> std::optional<bool> {
    select_values(document, steps, found);
    return !found.empty();
  });
}

NullableValues json_array_length(const JsonColumn& column, std::string_view path) {
  Steps steps = parse_path(path);
  std::vector<Value> found;
  return fixed_results<int64_t>(column, [&](size_t, const Value& document) -> std::optional<int64_t> {
    select_values(document, steps, found);
    if (found.empty()) return std::nullopt;
    return is_array(found[0]) ? num_members(found[0]) : 0;
  });
}

NullableValues json_array_contains(const JsonColumn& column, std::string_view path, std::string_view text) {
  Steps steps = parse_path(path);
  std::string quoted = '"' + std::string(text) + '"';
  std::string item_text;
  std::vector<Value> found;
  return bit_results(column, [&](size_t, const Value& document) -> std::optional<bool> {
    select_values(document, steps, found);
    for (const Value& value : found) {
      if (!is_array(value)) continue;
      uint64_t count = num_members(value);
      Members items(value.bytes, count);
      for (uint64_t i = 0; i < count; ++i) {
        item_text.clear();
        append_text(item_text, items.next());
        if (item_text == text || item_text == quoted) return true;
      }
    }
    return false;
  });
}

NullableVariable json_member(const JsonColumn& column, std::string_view name) {
  return variable_results<int64_t>(column, [&](size_t, const Value& document, std::string& out) {
    Value member;
    if (!find_member(document, name, member)) return false;
    append_document(out, member);
    return true;
  });
}

NullableVariable json_strings(const JsonColumn& column) {
  return variable_results<int32_t>(column, [](size_t i, const Value& document, std::string& out) {
    switch (document.type) {
      case kNull:
        return false;
      case kTrue:
      case kFalse:
        append_text(out, document);
        return true;
      case kString:
        append_bytes(out, document.bytes);
        return true;
      case kNumber: {
        Number number = read_number(document.bytes);
        const double* value = std::get_if<double>(&number);
        if (value != nullptr && std::isnan(*value)) {
          out += "NaN";
        } else if (value != nullptr && std::isinf(*value)) {
          out += *value < 0 ? "-inf" : "inf";
        } else {
          append_number(out, number);
        }
        return true;
      }
      default:
        refuse(i, document, "a text");
    }
  });
}

NullableValues json_integers(const JsonColumn& column) {
  return fixed_results<int64_t>(column, [](size_t i, const Value& document) {
    std::optional<int64_t> result;
    if (document.type == kNull) return result;
    if (document.type == kTrue || document.type == kFalse) result = document.type == kTrue;
    if (document.type == kNumber) result = number_as_integer(read_number(document.bytes));
    if (document.type == kString) result = text_as_integer(text_of(document));
    if (!result) refuse(i, document, "an integer of 64 bits");
    return result;
  });
}

NullableValues json_floats(const JsonColumn& column) {
  return fixed_results<double>(column, [](size_t i, const Value& document) {
    std::optional<double> result;
    if (document.type == kNull) return result;
    if (document.type == kTrue || document.type == kFalse) result = document.type == kTrue;
    if (document.type == kNumber) {
      result = std::visit([](auto number) { return static_cast<double>(number); }, read_number(document.bytes));
    }
    if (document.type == kString) result = text_as_float(text_of(document));
    if (!result) refuse(i, document, "a number");
    return result;
  });
}

NullableValues json_booleans(const JsonColumn& column) {
  return bit_results(column, [](size_t i, const Value& document) {
    std::optional<bool> result;
    if (document.type == kNull) return result;
    if (document.type == kTrue || document.type == kFalse) result = document.type == kTrue;
    if (document.type == kString) {
      std::string_view text = text_of(document);
      if (equals_ignoring_case(text, "true") || equals_ignoring_case(text, "yes")) result = true;
      if (equals_ignoring_case(text, "false") || equals_ignoring_case(text, "no")) result = false;
    }
    if (!result) refuse(i, document, "true or false");
    return result;
  });
}

namespace {

constexpr size_t kMostLabelBytes = size_t{1} << 28;  // paths may be much longer than the documents

class LeafReader {
 public:
  void read(const Value& value, int depth) {
    switch (value.type) {
      case kString:
        append_bytes(values_, value.bytes);
        add("str");
        break;
      case kNumber: {
        std::string text;
        append_number(text, read_number(value.bytes));
        values_ += text;
        add(text == "null" ? "null" : "number");
        break;
      }
      case kTrue:
      case kFalse:
        values_ += value.type == kTrue ? "true" : "false";
        add("bool");
        break;
      case kNull:
        values_ += "null";
        add("null");
        break;
      case kContainer:
        read_container(value, depth);
        break;
      default:
        corrupt("JSON value of unsupported type %08x", value.type);
    }
  }

  int64_t num_leaves() const { return static_cast<int64_t>(labels_.size()); }

  JsonLeaves take(Block ends) const {
    return {std::move(ends), block_of(labels_.data(), labels_.size()), variable(names_, name_ends_),
            variable(values_, value_ends_)};
  }

 private:
  void read_container(const Value& value, int depth) {
    if (depth == kMaxDepth) {
      corrupt("JSON is nested deeper than %d", kMaxDepth);
    }
    uint32_t count = num_members(value);
    if (is_array(value)) {
      Members items(value.bytes, count);
      for (uint32_t i = 0; i < count; ++i) read(items.next(), depth + 1);
      items.finish();
      return;
    }
    Members keys(value.bytes, 2 * uint64_t{count});
    Members members = keys;
    for (uint32_t i = 0; i < count; ++i) members.next();
    size_t length = path_.size();
    for (uint32_t i = 0; i < count; ++i) {
      Value key = keys.next();
      if (key.type != kString) {
        corrupt("JSON object has a key that is no string");
      }
      if (length != 0) path_ += '.';
      append_bytes(path_, key.bytes);
      read(members.next(), depth + 1);
      path_.resize(length);
    }
    members.finish();
  }

  void add(const char* type) {
    value_ends_.push_back(static_cast<int64_t>(values_.size()));
    std::string label = path_ + "," + type + ",";
    auto [known, is_new] = numbers_.try_emplace(std::move(label), static_cast<uint32_t>(numbers_.size()));
    if (is_new) {
      names_ += known->first;
      name_ends_.push_back(static_cast<int64_t>(names_.size()));
      if (names_.size() > kMostLabelBytes) {
        corrupt("paths in JSON have more than %zu bytes", kMostLabelBytes);
      }
    }
    labels_.push_back(known->second);
  }

  template <class T>
  static Block block_of(const T* values, size_t count) {
    Block block(count * sizeof(T));
    copy_bytes(block.data(), values, block.size());
    return block;
  }

  static VariableValues variable(const std::string& data, const std::vector<int64_t>& offsets) {
    VariableValues result;
    result.num_values = offsets.size() - 1;
    result.offsets = block_of(offsets.data(), offsets.size());
    result.data = block_of(data.data(), data.size());
    return result;
  }

  std::string path_, names_, values_;
  std::vector<int64_t> name_ends_{0}, value_ends_{0};
  std::vector<uint32_t> labels_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace

JsonLeaves json_leaves(const JsonColumn& column) {
  check_size(column);
  Block ends(column.num_values * sizeof(int64_t));
  LeafReader reader;
  size_t at = 0;
  auto fill_to = [&](size_t count) {
    for (; at < count; ++at) store<int64_t>(ends.data() + at * sizeof(int64_t), reader.num_leaves());
  };
  for_each_document(column, [&](size_t i, const Value& document) {
    fill_to(i);
    reader.read(document, 0);
  });
  fill_to(column.num_values);
  return reader.take(std::move(ends));
}

}  // namespace lance
