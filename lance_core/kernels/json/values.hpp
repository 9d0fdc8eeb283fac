// Views of values inside binary JSON (docs/format.md, "Logical types"). Every access is checked against the bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>

#include "base/common.hpp"
#include "json/binary.hpp"

namespace lance::json {

template <class T>
inline T load_big_endian(const uint8_t* p) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | p[i]);
  }
  return value;
}

inline uint32_t read_word(Bytes bytes, size_t at) {
  return load_big_endian<uint32_t>(bytes.slice(at, kEntryBytes).data);
}

// A value: the type of its entry, and its bytes. The bytes of an array or object begin with their header.
struct Value {
  uint32_t type = kNull;
  Bytes bytes;
};

// Iterates over the entries of a container and the bytes of its members.
class Members {
 public:
  Members(Bytes bytes, uint64_t num_entries) : bytes_(bytes) {
    if (bytes.size < kEntryBytes || num_entries * kEntryBytes > bytes.size - kEntryBytes) {
      corrupt("JSON container of %zu bytes has no room for %llu entries", bytes.size,
              static_cast<unsigned long long>(num_entries));
    }
    position_ = kEntryBytes * (1 + num_entries);
  }
  Value next() {
    entry_ += kEntryBytes;
    uint32_t entry = read_word(bytes_, entry_);
    Value member{entry & kTypeMask, bytes_.slice(position_, entry & kLengthMask)};
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

// Returns the kind of a container: kArray or kObject.
inline uint32_t container_kind(Bytes container) {
  uint32_t header = read_word(container, 0);
  uint32_t kind = header & kKindMask;
  if (kind != kArray && kind != kObject) {
    corrupt("JSON container of an unknown kind, header %08x", header);
  }
  return kind;
}

inline bool is_array(const Value& value) { return value.type == kContainer && container_kind(value.bytes) == kArray; }
inline bool is_object(const Value& value) { return value.type == kContainer && container_kind(value.bytes) == kObject; }

inline uint32_t num_members(const Value& container) { return read_word(container.bytes, 0) & kCountMask; }

// Returns the value that a row of a column holds. Its outermost container may hold one scalar. No bytes are null.
inline Value root_value(Bytes bytes) {
  if (bytes.size == 0) return {};
  uint32_t header = read_word(bytes, 0);
  if ((header & kKindMask) != kScalar) return {kContainer, bytes};
  if ((header & kCountMask) > 1) {
    corrupt("JSON scalar of %u values", header & kCountMask);
  }
  Members members(bytes, 1);
  Value value = members.next();
  members.finish();
  return value;
}

using Number = std::variant<int64_t, uint64_t, double>;

inline Number read_number(Bytes bytes) {
  if (bytes.size == 0) {
    corrupt("JSON number has no bytes");
  }
  const uint8_t* p = bytes.data + 1;
  size_t width = bytes.size - 1;
  auto require_width = [width](size_t expected) {
    if (width != expected) {
      corrupt("JSON number has %zu bytes, expected %zu", width, expected);
    }
  };
  switch (bytes.data[0]) {
    case kZero:
      require_width(0);
      return uint64_t{0};
    case kNaN:
      require_width(0);
      return std::numeric_limits<double>::quiet_NaN();
    case kInfinity:
    case kMinusInfinity: {
      require_width(0);
      double infinity = std::numeric_limits<double>::infinity();
      return bytes.data[0] == kInfinity ? infinity : -infinity;
    }
    case kSigned:
      if (width == 1) return int64_t{static_cast<int8_t>(*p)};
      if (width == 2) return int64_t{static_cast<int16_t>(load_big_endian<uint16_t>(p))};
      if (width == 4) return int64_t{static_cast<int32_t>(load_big_endian<uint32_t>(p))};
      require_width(8);
      return static_cast<int64_t>(load_big_endian<uint64_t>(p));
    case kUnsigned:
      if (width == 1) return uint64_t{*p};
      if (width == 2) return uint64_t{load_big_endian<uint16_t>(p)};
      if (width == 4) return uint64_t{load_big_endian<uint32_t>(p)};
      require_width(8);
      return load_big_endian<uint64_t>(p);
    case kFloat:
      require_width(8);
      return std::bit_cast<double>(load_big_endian<uint64_t>(p));
    default:
      corrupt("JSON number of unsupported type %02x", bytes.data[0]);
  }
}

}  // namespace lance::json
