#include "json/path.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

namespace lance::json {
namespace {

__extension__ using Int128 = __int128;

// Bounds on what a short path can cost: brackets inside each other, and values that one path selects in one document.
constexpr int kMaxBrackets = 64;
constexpr size_t kMaxValues = 1 << 20;
constexpr std::string_view kEndsOfNames = " ,.:{}[]()?@$|<>!=+-*/%\"'";
constexpr size_t kUnicodeDigits = 4;

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Steps path() {
    Steps steps;
    skip_blanks();
    if (!accept("$")) {
      size_t start = at_;
      if (std::optional<std::string> name = bare_name()) {
        steps.push_back(Member{std::move(*name)});
      } else {
        at_ = start;
      }
    }
    read_steps(steps, /*filters=*/true);
    if (at_ != text_.size()) refuse();
    return steps;
  }

 private:
  [[noreturn]] void refuse() const { throw InvalidPath(std::to_string(at_)); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool accept(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // Accepts a lower-case word in any case.
  bool accept_word(std::string_view word) {
    std::string_view found = text_.substr(at_, word.size());
    if (found.size() != word.size() ||
        !std::equal(word.begin(), word.end(), found.begin(), [](char a, char b) { return a == (b | 0x20); })) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  void expect(std::string_view word) {
    if (!accept(word)) refuse();
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  void read_steps(Steps& steps, bool filters) {
    while (true) {
      skip_blanks();
      if (accept(".**")) {
        steps.push_back(levels());
      } else if (accept(".*")) {
        steps.push_back(AllMembers{});
      } else if (accept(".") || accept(":")) {
        steps.push_back(Member{peek() == '"' ? quoted() : require_name()});
      } else if (accept("[")) {
        steps.push_back(brackets());
      } else if (filters && accept("?")) {
        steps.push_back(filter());
      } else {
        return;
      }
    }
  }

  Step brackets() {
    skip_blanks();
    if (accept("*")) {
      skip_blanks();
      expect("]");
      return AllItems{};
    }
    if (peek() == '"') {
      std::string name = quoted();
      skip_blanks();
      expect("]");
      return Member{std::move(name)};
    }
    Items items;
    do {
      skip_blanks();
      ItemRange range;
      range.first = range.last = position();
      skip_blanks();
      if (accept_word("to")) {
        skip_blanks();
        range.last = position();
        skip_blanks();
      }
      items.ranges.push_back(range);
    } while (accept(","));
    expect("]");
    return items;
  }

  Position position() {
    if (!accept_word("last")) return {integer(), false};
    size_t end = at_;
    skip_blanks();
    bool minus = peek() == '-';
    if (!minus && peek() != '+') {
      at_ = end;
      return {0, true};
    }
    ++at_;
    skip_blanks();
    int64_t offset = integer();
    return {minus ? -offset : offset, true};
  }

  // Reads a number of 32 bits, so that no sum of two overflows.
  int64_t integer() {
    if (peek() == '+') {
      ++at_;
      if (!is_digit(peek())) refuse();
    }
    int32_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) refuse();
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // Reads the levels after `.**`, if there are any: `{1}`, `{1 to 3}`, `{1 to last}`.
  Descendants levels() {
    Descendants all{0, std::numeric_limits<int>::max()};
    if (!accept("{")) return all;
    skip_blanks();
    Descendants some;
    some.first_level = some.last_level = level();
    skip_blanks();
    if (accept_word("to")) {
      skip_blanks();
      some.last_level = accept_word("last") ? all.last_level : level();
      skip_blanks();
    }
    expect("}");
    return some;
  }

  int level() {
    uint8_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) refuse();
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string require_name() {
    std::optional<std::string> name = bare_name();
    if (!name) refuse();
    return std::move(*name);
  }

  // Reads a name without quotes, which ends before a sign or a space.
  std::optional<std::string> bare_name() {
    std::string name;
    size_t start = at_;
    while (at_ < text_.size() && kEndsOfNames.find(text_[at_]) == std::string_view::npos) {
      character(name);
    }
    if (at_ == start) return std::nullopt;
    return name;
  }

  // Reads a text in double quotes, which may not be empty.
  std::string quoted() {
    expect("\"");
    size_t start = at_;
    std::string text;
    while (peek() != '"') {
      if (at_ == text_.size()) refuse();
      character(text);
    }
    if (at_ == start) refuse();
    ++at_;
    return text;
  }

  void character(std::string& out) {
    char byte = text_[at_];
    if (byte != '\\') {
      out += byte;
      ++at_;
      return;
    }
    ++at_;
    switch (peek()) {
      case '\\':
      case '"':
      case '/':
        out += peek();
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u':
        ++at_;
        unicode(out);
        return;
      default:
        refuse();
    }
    ++at_;
  }

  // Reads the part of an escape after `\u`. Half of a surrogate pair stays as it is written, as in JSON text.
  void unicode(std::string& out) {
    std::string_view first = digits();
    uint32_t code = value_of(first);
    if (code < 0xD800 || code > 0xDFFF) {
      append_utf8(out, code);
      return;
    }
    if (code >= 0xDC00 || !accept("\\u")) {
      out.append("\\u").append(first);
      return;
    }
    std::string_view second = digits();
    uint32_t low = value_of(second);
    if (low >= 0xDC00 && low <= 0xDFFF) {
      append_utf8(out, 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00)));
    } else {
      out.append("\\u").append(first).append("\\u").append(second);
    }
  }

  std::string_view digits() {
    bool braces = accept("{");
    std::string_view found = text_.substr(at_, kUnicodeDigits);
    if (found.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos || found.size() < kUnicodeDigits) {
      refuse();
    }
    at_ += kUnicodeDigits;
    if (braces) expect("}");
    return found;
  }

  static uint32_t value_of(std::string_view digits) {
    uint32_t code = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    return code;
  }

  static void append_utf8(std::string& out, uint32_t code) {
    auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  Filter filter() {
    skip_blanks();
    expect("(");
    Condition condition = any();
    expect(")");
    return {std::make_shared<const Condition>(std::move(condition))};
  }

  Condition any() { return chain("||", Condition::Kind::any, &Parser::all); }
  Condition all() { return chain("&&", Condition::Kind::all, &Parser::atom); }

  Condition chain(std::string_view word, Condition::Kind kind, Condition (Parser::*part)()) {
    skip_blanks();
    Condition first = (this->*part)();
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return first;
    Condition chained;
    chained.kind = kind;
    chained.parts.push_back(std::move(first));
    while (accept(word)) {
      skip_blanks();
      chained.parts.push_back((this->*part)());
      skip_blanks();
    }
    return chained;
  }

  Condition atom() {
    if (++brackets_ > kMaxBrackets) refuse();
    Condition condition;
    if (accept("(")) {
      condition = any();
      expect(")");
    } else if (accept("exists")) {
      skip_blanks();
      expect("(");
      skip_blanks();
      condition.kind = Condition::Kind::exists;
      condition.left = reference(/*filters=*/true);
      expect(")");
    } else {
      condition.kind = Condition::Kind::compares;
      condition.left = operand();
      condition.comparison = comparison();
      condition.right = operand();
    }
    --brackets_;
    return condition;
  }

  Comparison comparison() {
    skip_blanks();
    if (accept("==")) return Comparison::equal;
    if (accept("!=") || accept("<>")) return Comparison::not_equal;
    if (accept("<=")) return Comparison::less_equal;
    if (accept("<")) return Comparison::less;
    if (accept(">=")) return Comparison::greater_equal;
    if (accept(">")) return Comparison::greater;
    if (accept("starts with")) return Comparison::starts_with;
    refuse();
  }

  Operand operand() {
    skip_blanks();
    if (peek() == '$' || peek() == '@') return reference(/*filters=*/false);
    if (accept("null")) return Constant(Null{});
    if (accept("true")) return Constant(true);
    if (accept("false")) return Constant(false);
    if (peek() == '"') return Constant(quoted());
    return Constant(number());
  }

  Reference reference(bool filters) {
    Reference reference;
    reference.from_root = accept("$");
    if (!reference.from_root) expect("@");
    read_steps(reference.steps, filters);
    return reference;
  }

  Number number() {
    const char* start = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    if (peek() == '+') refuse();
    size_t length = std::min(text_.find_first_not_of("0123456789-", at_), text_.size()) - at_;
    bool is_whole =
        at_ + length == text_.size() || std::string_view(".eE").find(text_[at_ + length]) == std::string_view::npos;
    uint64_t whole = 0;
    int64_t negative = 0;
    double fraction = 0;
    std::from_chars_result result{};
    Number number;
    if (is_whole && (result = std::from_chars(start, end, whole)).ec == std::errc()) {
      number = whole;
    } else if (is_whole && (result = std::from_chars(start, end, negative)).ec == std::errc()) {
      number = negative;
    } else if ((is_digit(peek()) || peek() == '-' || peek() == '.') &&
               (result = std::from_chars(start, end, fraction)).ec == std::errc()) {
      number = fraction;
    } else {
      refuse();
    }
    at_ += static_cast<size_t>(result.ptr - start);
    return number;
  }

  std::string_view text_;
  size_t at_ = 0;
  int brackets_ = 0;
};

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

// Numbers of different types are compared exactly where both are integers, and as doubles otherwise. NaN equals NaN and
// is the greatest number.
int compare_numbers(const Number& left, const Number& right) {
  auto order = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (std::holds_alternative<double>(left) || std::holds_alternative<double>(right)) {
    auto as_double = [](auto number) { return static_cast<double>(number); };
    double a = std::visit(as_double, left);
    double b = std::visit(as_double, right);
    if (std::isnan(a) || std::isnan(b)) return order(std::isnan(a), std::isnan(b));
    return order(a, b);
  }
  auto as_integer = [](auto number) { return static_cast<Int128>(number); };
  return order(std::visit(as_integer, left), std::visit(as_integer, right));
}

// A value that conditions compare. Arrays and objects have none.
using Comparable = std::variant<Null, bool, Number, std::string_view>;

std::optional<Comparable> comparable(const Value& value) {
  switch (value.type) {
    case kNull:
      return Null{};
    case kTrue:
      return true;
    case kFalse:
      return false;
    case kNumber:
      return read_number(value.bytes);
    case kString:
      return text_of(value.bytes);
    default:
      return std::nullopt;
  }
}

Comparable comparable(const Constant& constant) {
  if (const std::string* text = std::get_if<std::string>(&constant)) return std::string_view(*text);
  if (const Number* number = std::get_if<Number>(&constant)) return *number;
  if (const bool* truth = std::get_if<bool>(&constant)) return *truth;
  return Null{};
}

// Truth values of conditions: unknown if values cannot be compared.
using Truth = std::optional<bool>;

Truth compare(Comparison comparison, const Comparable& left, const Comparable& right) {
  if (comparison == Comparison::starts_with) {
    const auto* text = std::get_if<std::string_view>(&left);
    const auto* prefix = std::get_if<std::string_view>(&right);
    if (text == nullptr || prefix == nullptr) return std::nullopt;
    return text->starts_with(*prefix);
  }
  if (left.index() != right.index()) return comparison == Comparison::not_equal ? Truth(true) : std::nullopt;
  int order = 0;
  if (const auto* number = std::get_if<Number>(&left)) {
    order = compare_numbers(*number, std::get<Number>(right));
  } else if (const auto* text = std::get_if<std::string_view>(&left)) {
    order = text->compare(std::get<std::string_view>(right));
  } else if (const auto* truth = std::get_if<bool>(&left)) {
    order = int{*truth} - int{std::get<bool>(right)};
  }
  switch (comparison) {
    case Comparison::equal:
      return order == 0;
    case Comparison::not_equal:
      return order != 0;
    case Comparison::less:
      return order < 0;
    case Comparison::less_equal:
      return order <= 0;
    case Comparison::greater:
      return order > 0;
    default:
      return order >= 0;
  }
}

class Selector {
 public:
  explicit Selector(const Value& root) : root_(root) {}

  void select(const Value& start, const Steps& steps, std::vector<Value>& found) {
    found.assign(1, start);
    std::vector<Value> next;
    for (const Step& step : steps) {
      next.clear();
      for (const Value& value : found) {
        std::visit([&](const auto& each) { take(value, each, next); }, step);
      }
      found.swap(next);
    }
  }

 private:
  static void add(std::vector<Value>& to, const Value& value) {
    if (to.size() == kMaxValues) {
      no_result("the path selects more than %zu values of one document", kMaxValues);
    }
    to.push_back(value);
  }

  void take(const Value& value, const Member& step, std::vector<Value>& to) {
    Value member;
    if (is_object(value) && find_member(value, step.name, member)) add(to, member);
  }

  void take(const Value& value, const AllMembers&, std::vector<Value>& to) {
    if (is_object(value)) take_children(value, to);
  }

  // A value that is no array counts as an array with this value.
  void take(const Value& value, const AllItems&, std::vector<Value>& to) {
    if (is_array(value)) {
      take_children(value, to);
    } else {
      add(to, value);
    }
  }

  void take(const Value& value, const Items& step, std::vector<Value>& to) {
    if (!is_array(value)) return;
    int64_t count = num_members(value);
    for (const ItemRange& range : step.ranges) {
      auto index = [count](const Position& at) { return at.from_end ? count - 1 + at.offset : at.offset; };
      int64_t first = std::max<int64_t>(index(range.first), 0);
      int64_t last = std::min(index(range.last), count - 1);
      if (first > last) continue;
      Members members(value.bytes, static_cast<uint64_t>(count));
      for (int64_t i = 0; i <= last; ++i) {
        Value item = members.next();
        if (i >= first) add(to, item);
      }
    }
  }

  void take(const Value& value, const Descendants& step, std::vector<Value>& to) { take_levels(value, step, 0, to); }

  void take_levels(const Value& value, const Descendants& step, int level, std::vector<Value>& to) {
    if (level > kMaxDepth) corrupt("JSON is nested deeper than %d", kMaxDepth);
    if (level > step.last_level || step.first_level > step.last_level) return;
    if (level >= step.first_level) add(to, value);
    if (level == step.last_level || value.type != kContainer) return;
    visit_children(value, [&](const Value& child) { take_levels(child, step, level + 1, to); });
  }

  void take(const Value& value, const Filter& step, std::vector<Value>& to) {
    if (holds(*step.condition, value).value_or(false)) add(to, value);
  }

  static void take_children(const Value& value, std::vector<Value>& to) {
    visit_children(value, [&](const Value& child) { add(to, child); });
  }

  template <class Visit>
  static void visit_children(const Value& value, Visit visit) {
    uint64_t count = num_members(value);
    bool has_keys = is_object(value);
    Members members(value.bytes, has_keys ? 2 * count : count);
    for (uint64_t i = 0; has_keys && i < count; ++i) members.next();
    for (uint64_t i = 0; i < count; ++i) visit(members.next());
  }

  // AND and OR are unknown if one of their parts is unknown.
  Truth holds(const Condition& condition, const Value& value) {
    switch (condition.kind) {
      case Condition::Kind::exists:
        return !values_at(std::get<Reference>(condition.left), value).empty();
      case Condition::Kind::compares:
        return compares(condition, value);
      default:
        break;
    }
    bool is_any = condition.kind == Condition::Kind::any;
    bool result = !is_any;
    for (const Condition& part : condition.parts) {
      Truth truth = holds(part, value);
      if (!truth) return std::nullopt;
      result = is_any ? result || *truth : result && *truth;
    }
    return result;
  }

  // A comparison is true if one pair of values meets it, and unknown if a pair before it cannot be compared.
  Truth compares(const Condition& condition, const Value& value) {
    std::vector<std::optional<Comparable>> left = comparables(condition.left, value);
    std::vector<std::optional<Comparable>> right = comparables(condition.right, value);
    for (const auto& a : left) {
      for (const auto& b : right) {
        Truth truth = a && b ? compare(condition.comparison, *a, *b) : std::nullopt;
        if (!truth || *truth) return truth;
      }
    }
    return false;
  }

  // Returns the values of an operand. Arrays stand for their items.
  std::vector<std::optional<Comparable>> comparables(const Operand& operand, const Value& value) {
    if (const auto* constant = std::get_if<Constant>(&operand)) return {comparable(*constant)};
    std::vector<std::optional<Comparable>> found;
    for (const Value& each : values_at(std::get<Reference>(operand), value)) {
      if (is_array(each)) {
        visit_children(each, [&](const Value& item) { found.push_back(comparable(item)); });
      } else {
        found.push_back(comparable(each));
      }
    }
    return found;
  }

  std::vector<Value> values_at(const Reference& reference, const Value& value) {
    std::vector<Value> found;
    select(reference.from_root ? root_ : value, reference.steps, found);
    return found;
  }

  const Value& root_;
};

}  // namespace

Steps parse_path(std::string_view text) { return Parser(text).path(); }

void select_values(const Value& root, const Steps& steps, std::vector<Value>& found) {
  Selector(root).select(root, steps, found);
}

bool find_member(const Value& parent, std::string_view name, Value& value) {
  if (parent.type != kContainer) return false;
  uint64_t count = num_members(parent);
  if (is_array(parent)) {
    std::string_view digits = name.starts_with('+') ? name.substr(1) : name;
    uint64_t index = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index >= count) return false;
    Members members(parent.bytes, count);
    for (uint64_t i = 0; i < index; ++i) members.next();
    value = members.next();
    return true;
  }
  Members members(parent.bytes, 2 * count);
  uint64_t place = count;
  for (uint64_t i = 0; i < count; ++i) {
    Value key = members.next();
    if (place == count && text_of(key.bytes) == name) place = i;
  }
  if (place == count) return false;
  for (uint64_t i = 0; i < place; ++i) members.next();
  value = members.next();
  return true;
}

}  // namespace lance::json
