#include "encode/builders.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/bits.hpp"
#include "base/variable.hpp"

namespace lance {
namespace {

constexpr size_t kGrowth = 8;
constexpr size_t kSlack = 16;  // whole words are stored

}  // namespace

uint8_t* GrowingBytes::extend(size_t bytes) {
  size_t needed = size_ + bytes + kSlack, capacity = block_.capacity();
  if (needed > capacity) {
    size_t larger =
        capacity < expected_ ? std::min(capacity * kGrowth, expected_ + expected_ / 8) : capacity + capacity / 2;
    Block grown(std::max(needed, larger));
    copy_bytes(grown.data(), block_.data(), size_);
    block_ = std::move(grown);
  }
  uint8_t* at = block_.data() + size_;
  size_ += bytes;
  return at;
}

Block GrowingBytes::finish() {
  if (block_.data() == nullptr) block_ = Block(0);
  block_.resize(size_);
  expected_ = std::max(expected_, size_);
  size_ = 0;
  Block done = std::move(block_);
  block_ = Block();
  return done;
}

void GrowingBits::append_word(uint64_t bits, size_t n) {
  size_t shift = num_bits_ % 8, missing = ceil8(num_bits_ + n) - bytes_.size();
  bytes_.extend(missing);
  uint8_t* to = bytes_.data() + num_bits_ / 8;
  uint64_t low = bits << shift;
  if (shift != 0) {
    low |= *to;
    to[8] = static_cast<uint8_t>(bits >> (64 - shift));
  }
  store(to, low);  // supported hosts are little-endian, like bitmaps
  num_bits_ += n;
}

void GrowingBits::append(Bytes bits, size_t offset, size_t n) {
  if (num_bits_ % 8 == 0 && offset % 8 == 0 && n >= 64) {
    size_t whole = n / 8;
    copy_bytes(bytes_.extend(whole), bits.data + offset / 8, whole);
    num_bits_ += whole * 8;
    offset += whole * 8;
    n -= whole * 8;
  }
  for (size_t done = 0; done < n; done += 64) {
    size_t count = std::min<size_t>(64, n - done);
    append_word(word_at(bits, offset + done, count), count);
  }
}

void GrowingBits::fill(bool bit, size_t n) {
  for (size_t done = 0; done < n; done += 64) {
    size_t count = std::min<size_t>(64, n - done);
    append_word(bit ? ~uint64_t{0} >> (64 - count) : 0, count);
  }
}

Block GrowingBits::finish() {
  num_bits_ = 0;
  return bytes_.finish();
}

ArrayBuilder::ArrayBuilder(size_t value_bits, unsigned offset_bits, size_t expected_bytes)
    : value_bits_(value_bits),
      offset_bits_(offset_bits),
      validity_(expected_bytes),
      bits_(expected_bytes),
      values_(expected_bytes),
      data_(expected_bytes) {
  if (offset_bits != 0) offset_bytes(offset_bits);
  if (value_bits % 8 != 0 && value_bits != 1) corrupt("values of %zu bits", value_bits);
}

void ArrayBuilder::append(size_t n, size_t first, Bytes validity, Bytes values, Bytes data) {
  if (n == 0) return;  // Arrow's C interface passes no buffers of an empty array, but may pass an offset
  if (n > SIZE_MAX / 64 || first > SIZE_MAX / 64 || (validity.data && validity.size < ceil8(first + n))) {
    corrupt("%zu bytes of validity for values [%zu, %zu + %zu)", validity.size, first, first, n);
  }
  if (offset_bits_ == 32) {
    append_variable<uint32_t>(n, first, values, data);
  } else if (offset_bits_ == 64) {
    append_variable<uint64_t>(n, first, values, data);
  } else if (value_bits_ == 1) {
    if (values.size < ceil8(first + n)) corrupt("%zu bytes for bits [%zu, %zu + %zu)", values.size, first, first, n);
    bits_.append(values, first, n);
  } else if (value_bits_ != 0) {
    size_t width = value_bits_ / 8;
    if (values.size / width < first + n) {
      corrupt("%zu bytes for values [%zu, %zu + %zu) of %zu bytes", values.size, first, first, n, width);
    }
    copy_bytes(values_.extend(n * width), values.data + first * width, n * width);
  }
  append_validity(n, first, validity);
  num_values_ += n;
}

void ArrayBuilder::append_validity(size_t n, size_t first, Bytes validity) {
  size_t valid = n;
  if (validity.data != nullptr) {
    valid = 0;
    for (size_t done = 0; done < n; done += 64) {
      valid += static_cast<size_t>(std::popcount(word_at(validity, first + done, std::min<size_t>(64, n - done))));
    }
  }
  if (valid == n && null_count_ == 0) return;
  validity_.fill(true, num_values_ - validity_.size());
  if (valid == n) {
    validity_.fill(true, n);
  } else {
    validity_.append(validity, first, n);
  }
  null_count_ += n - valid;
}

template <class T>
void ArrayBuilder::append_variable(size_t n, size_t first, Bytes offsets, Bytes data) {
  if (offsets.size / sizeof(T) < first + n + 1) {
    corrupt("%zu bytes of offsets for values [%zu, %zu + %zu)", offsets.size, first, first, n);
  }
  Bytes from = offsets.slice(first * sizeof(T), (n + 1) * sizeof(T));
  check_offsets(from, n, data.size, offset_bits_);
  T begin = load<T>(from.data), end = load<T>(from.data + n * sizeof(T));
  size_t base = data_.size();
  if (sizeof(T) == 4 && base + (end - begin) > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  if (values_.size() == 0) store<T>(values_.extend(sizeof(T)), 0);
  auto shift = static_cast<T>(base - begin);
  auto* to = reinterpret_cast<T*>(values_.extend(n * sizeof(T)));
  for (size_t i = 0; i < n; ++i) to[i] = load<T>(from.data + (i + 1) * sizeof(T)) + shift;
  copy_bytes(data_.extend(end - begin), data.data + begin, end - begin);
}

BuiltArray ArrayBuilder::finish() {
  BuiltArray out;
  out.num_values = std::exchange(num_values_, 0);
  out.null_count = std::exchange(null_count_, 0);
  out.validity = validity_.finish();
  out.values = value_bits_ == 1 ? bits_.finish() : values_.finish();
  out.data = data_.finish();
  return out;
}

void LevelBuilder::fill(size_t num_entries) {
  if (num_entries < levels_.size() / 2 || num_entries > SIZE_MAX / 4) {
    corrupt("levels from entry %zu on behind %zu levels", num_entries, levels_.size() / 2);
  }
  size_t missing = num_entries * 2 - levels_.size();
  std::memset(levels_.extend(missing), 0, missing);
}

void LevelBuilder::append(size_t first, size_t n, Bytes levels) {
  if (levels.size / 2 < n) corrupt("%zu bytes for %zu levels", levels.size, n);
  fill(first);
  copy_bytes(levels_.extend(n * 2), levels.data, n * 2);
}

Block LevelBuilder::finish(size_t num_entries) {
  fill(num_entries);
  return levels_.finish();
}

}  // namespace lance
