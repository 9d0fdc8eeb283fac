// Paths to values inside JSON, such as `$.user.tags[0 to last]`, in the dialect of the reference: docs/filters.md,
// "JSON".
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "json/values.hpp"

namespace lance::json {

// A text is no path. The message is the position at which it makes no sense.
class InvalidPath : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Condition;

// Index of an item. If it is counted from the end, 0 is the last item and -1 the one before it.
struct Position {
  int64_t offset = 0;
  bool from_end = false;
};

// Items from `first` to `last`, both inclusive.
struct ItemRange {
  Position first;
  Position last;
};

struct Member {
  std::string name;
};
struct AllMembers {};
struct AllItems {};
struct Items {
  std::vector<ItemRange> ranges;
};
// The value itself is at level 0.
struct Descendants {
  int first_level = 0;
  int last_level = 0;
};
struct Filter {
  std::shared_ptr<const Condition> condition;
};

using Step = std::variant<Member, AllMembers, AllItems, Items, Descendants, Filter>;
using Steps = std::vector<Step>;

// Values that a condition compares: a constant, or the values at a path from the root or from the filtered value.
struct Null {};
using Constant = std::variant<Null, bool, Number, std::string>;
struct Reference {
  bool from_root = false;
  Steps steps;
};
using Operand = std::variant<Constant, Reference>;

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, starts_with };

struct Condition {
  enum class Kind { all, any, compares, exists };
  Kind kind = Kind::all;
  std::vector<Condition> parts;  // of `all` and `any`
  Comparison comparison = Comparison::equal;
  Operand left;  // of `exists`: the reference
  Operand right;
};

// Returns the steps of a path. Throws InvalidPath with the position in the text.
Steps parse_path(std::string_view text);

// Sets `found` to the values at a path, in the order of the document.
void select_values(const Value& root, const Steps& steps, std::vector<Value>& found);

// Sets `value` to the member of an object with this name, or to the item of an array whose index is this text. Returns
// whether there is one.
bool find_member(const Value& parent, std::string_view name, Value& value);

}  // namespace lance::json
