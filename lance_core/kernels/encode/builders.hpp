// Buffers for the values of a leaf until they fill a page. Each value is copied once.
#pragma once

#include "base/pool.hpp"
#include "encode/levels.hpp"

namespace lance {

// Growing bytes. They grow in few large steps up to the expected size, so that little is copied twice.
class GrowingBytes {
 public:
  explicit GrowingBytes(size_t expected) : expected_(expected) {}

  size_t size() const { return size_; }
  uint8_t* data() const { return block_.data(); }
  uint8_t* extend(
      size_t bytes);  // returns the start of `bytes` more bytes; the caller may also write a few bytes after them
  Block finish();     // returns the content and leaves the buffer empty

 private:
  Block block_;
  size_t size_ = 0;
  size_t expected_;
};

// A growing bitmap.
class GrowingBits {
 public:
  explicit GrowingBits(size_t expected_bytes) : bytes_(expected_bytes) {}

  void append(Bytes bits, size_t offset, size_t n);
  void fill(bool bit, size_t n);
  size_t size() const { return num_bits_; }
  Block finish();

 private:
  void append_word(uint64_t bits, size_t n);  // the low n <= 64 bits; the other bits are 0

  GrowingBytes bytes_;
  size_t num_bits_ = 0;
};

// Buffers of an Arrow array that begin at bit and value 0. Buffers that its type does not have are empty.
struct BuiltArray {
  size_t num_values = 0;
  size_t null_count = 0;
  Block validity;  // valid only if there are nulls
  Block values;    // or offsets
  Block data;
};

// Joins slices of Arrow arrays of one type: values of a fixed width, or offsets and bytes. If both widths are 0, there
// is only validity, as for fixed-size lists and structs.
class ArrayBuilder {
 public:
  // Values have `value_bits` bits, or variable length with offsets of `offset_bits`, and about `expected_bytes` in
  // total.
  ArrayBuilder(size_t value_bits, unsigned offset_bits, size_t expected_bytes);

  // Appends the values [first, first + n) of an array. `values` are its offsets if it has offsets.
  void append(size_t n, size_t first, Bytes validity, Bytes values, Bytes data);
  BuiltArray finish();

 private:
  void append_validity(size_t n, size_t first, Bytes validity);
  template <class T>
  void append_variable(size_t n, size_t first, Bytes offsets, Bytes data);

  size_t value_bits_;
  unsigned offset_bits_;
  size_t num_values_ = 0;
  size_t null_count_ = 0;
  GrowingBits validity_;
  GrowingBits bits_;
  GrowingBytes values_;
  GrowingBytes data_;
};

// Joins levels. An entry without levels gets zeros.
class LevelBuilder {
 public:
  explicit LevelBuilder(size_t expected_bytes) : levels_(expected_bytes) {}

  // Appends the levels of the entries [first, first + n), after zeros for earlier entries without levels.
  void append(size_t first, size_t n, Bytes levels);
  bool empty() const { return levels_.size() == 0; }
  Block finish(size_t num_entries);

 private:
  void fill(size_t num_entries);

  GrowingBytes levels_;
};

}  // namespace lance
