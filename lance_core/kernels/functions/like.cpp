#include "functions/like.hpp"

#include <cstring>

#include "base/variable.hpp"
#include "functions/find_bytes.hpp"

namespace lance {
namespace {

bool is_start(uint8_t byte) { return (byte & 0xC0) != 0x80; }

// Returns the place after `count` characters from `at` on; kNoPlace if there are not so many.
size_t after_characters(Bytes text, size_t at, size_t count) {
  for (; count > 0; --count) {
    if (at >= text.size) return kNoPlace;
    for (++at; at < text.size && !is_start(text.data[at]); ++at) {
    }
  }
  return at;
}

// Returns where `count` characters begin that end at `at`; kNoPlace if there are not so many.
size_t before_characters(Bytes text, size_t at, size_t count) {
  for (; count > 0; --count) {
    if (at == 0) return kNoPlace;
    for (--at; at > 0 && !is_start(text.data[at]); --at) {
    }
  }
  return at;
}

// Returns whether a text has a literal at a place, which is inside the text or its end.
bool has(Bytes text, size_t at, const std::string& literal) {
  return literal.empty() ||
         (text.size - at >= literal.size() && std::memcmp(text.data + at, literal.data(), literal.size()) == 0);
}

// Returns where a segment ends that begins at `at`; kNoPlace if the text has something else there.
size_t match_at(Bytes text, size_t at, const LikeSegment& segment) {
  for (const LikePiece& piece : segment) {
    at = after_characters(text, at, piece.skipped);
    if (at == kNoPlace || !has(text, at, piece.literal)) return kNoPlace;
    at += piece.literal.size();
  }
  return at;
}

// Returns where a segment begins that ends with the text; kNoPlace if the text ends otherwise.
size_t match_end(Bytes text, const LikeSegment& segment) {
  size_t at = text.size;
  for (size_t i = segment.size(); i > 0; --i) {
    const std::string& literal = segment[i - 1].literal;
    if (at < literal.size()) return kNoPlace;
    at -= literal.size();
    if (!has(text, at, literal)) return kNoPlace;
    at = before_characters(text, at, segment[i - 1].skipped);
    if (at == kNoPlace) return kNoPlace;
  }
  return at;
}

class Matcher {
 public:
  Matcher(Bytes data, const std::vector<LikeSegment>& segments, bool at_start, bool at_end)
      : data_(data), segments_(segments), at_start_(at_start), at_end_(at_end) {}

  // Returns whether the value at [begin, end) of the data matches.
  bool matches(size_t begin, size_t end) const {
    Bytes text = data_.slice(begin, end - begin);
    size_t first = 0, rest = segments_.size(), at = 0, until = text.size;
    if (at_start_) {
      at = match_at(text, 0, segments_[first++]);
      if (at == kNoPlace) return false;
      if (first == rest && at_end_) return at == text.size;
    }
    if (at_end_) {
      until = match_end(text, segments_[--rest]);
      if (until == kNoPlace || until < at) return false;
    }
    // The first place of each segment leaves the most room for the others.
    for (; first < rest; ++first) {
      at = end_of_first(text, at, until, begin, segments_[first]);
      if (at == kNoPlace) return false;
    }
    return true;
  }

 private:
  // Returns the end of the first place of a segment in [at, until) of a text, which begins at `begin` of the data.
  size_t end_of_first(Bytes text, size_t at, size_t until, size_t begin, const LikeSegment& segment) const {
    const LikePiece& piece = segment.front();
    Bytes part{text.data, until};
    while (true) {
      size_t place = after_characters(part, at, piece.skipped);
      if (place == kNoPlace) return kNoPlace;
      size_t found = find_bytes(data_, begin + place, begin + until, piece.literal);
      if (found == kNoPlace) return kNoPlace;
      at = before_characters(part, found - begin, piece.skipped);
      size_t end = match_at(part, at, segment);
      if (end != kNoPlace || at >= until) return end;
      at = after_characters(part, at, 1);
    }
  }

  Bytes data_;
  const std::vector<LikeSegment>& segments_;
  bool at_start_;
  bool at_end_;
};

// Returns the longest literal of all segments, which every match has; null if there is none.
const std::string* longest_literal(const std::vector<LikeSegment>& segments) {
  const std::string* longest = nullptr;
  for (const LikeSegment& segment : segments) {
    for (const LikePiece& piece : segment) {
      if (!piece.literal.empty() && (longest == nullptr || piece.literal.size() > longest->size())) {
        longest = &piece.literal;
      }
    }
  }
  return longest;
}

}  // namespace

Block match_like(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                 const std::vector<LikeSegment>& segments, bool at_start, bool at_end) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  OffsetReader offset(offsets.data, offset_bits);
  Block result(ceil8(num_values));
  std::memset(result.data(), 0, result.size());
  Matcher matcher(data, segments, at_start, at_end);
  auto note = [&](size_t i) { result.data()[i / 8] = static_cast<uint8_t>(result.data()[i / 8] | (1U << (i % 8))); };
  // A segment with a fixed place is compared there.
  bool is_fixed = at_start || (at_end && segments.size() == 1);
  const std::string* rare = is_fixed ? nullptr : longest_literal(segments);
  if (rare == nullptr) {
    for (size_t i = 0; i < num_values; ++i) {
      if (matcher.matches(offset[i], offset[i + 1])) note(i);
    }
    return result;
  }
  // The literal is looked for in the bytes of all values at once. Most values do not have it.
  size_t end = num_values == 0 ? 0 : offset[num_values];
  size_t at = num_values == 0 ? 0 : offset[0];
  for (size_t i = 0; i < num_values;) {
    at = find_bytes(data, at, end, *rare);
    if (at == kNoPlace) break;
    while (i < num_values && offset[i + 1] <= at) ++i;
    if (at + rare->size() <= offset[i + 1]) {  // otherwise it begins in one value and ends in another
      if (matcher.matches(offset[i], offset[i + 1])) note(i);
    }
    do {
      ++i;
    } while (i < num_values && offset[i + 1] - offset[i] < rare->size());
    at = offset[i];
  }
  return result;
}

}  // namespace lance
