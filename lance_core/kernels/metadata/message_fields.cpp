#include "metadata/message_fields.hpp"

#include "metadata/message_reader.hpp"

namespace lance {
namespace {

void add_fields(Bytes message, const std::vector<uint64_t>& path, size_t depth, FieldTotals& totals) {
  MessageReader reader(message);
  while (reader.has_more()) {
    MessageField field = reader.next();
    bool is_last = depth + 1 == path.size();
    if (field.number != path[depth]) {
      continue;
    }
    if (!is_last) {
      add_fields(field.content, path, depth + 1, totals);
      continue;
    }
    totals.count++;
    if (__builtin_add_overflow(totals.sum, field.value, &totals.sum)) {
      corrupt("a sum over the fields of a message has more than 64 bits");
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
