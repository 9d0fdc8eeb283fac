#include "base/common.hpp"

#include <cstdarg>
#include <cstdio>
#include <limits>

namespace lance {

namespace {

constexpr size_t kMostText = 256;

std::string formatted(const char* format, va_list arguments) {
  char text[kMostText];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

}  // namespace

void corrupt(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  throw CorruptData(text);
}

void no_result(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  throw NoResult(text);
}

Counts::Counts(std::vector<int64_t> per_chunk) : values(std::move(per_chunk)) {
  for (int64_t n : values) {
    if (n < 0 || n > std::numeric_limits<int64_t>::max() / 1024 - total) {
      corrupt("a chunk claims %lld values", static_cast<long long>(n));
    }
    total += n;
  }
}

void Stream::append(size_t at, size_t bytes) {
  base.slice(at, bytes);
  offset.push_back(static_cast<int64_t>(at));
  length.push_back(static_cast<int64_t>(bytes));
}

void require_same_chunks(const Stream& stream, const Counts& counts) {
  if (stream.size() != counts.values.size()) {
    corrupt("%zu chunks of bytes for %zu chunks of values", stream.size(), counts.values.size());
  }
}

}  // namespace lance
