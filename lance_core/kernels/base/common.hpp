// Common parts of all kernels: views over bytes, unaligned loads, and the exceptions that kernels throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// Function multiversioning: the binary has variants for several vector widths, and the loader picks one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LANCE_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LANCE_MULTIVERSION
#endif

namespace lance {

// The bytes contradict the format. Python adds the file, column and page.
class CorruptData : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Values need more bytes than 32-bit Arrow offsets can address. The caller reads fewer rows at once.
class OffsetOverflow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A function of values has no result for one of them, for example because a text is no number.
class NoResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void no_result(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void corrupt(const char* format, ...) __attribute__((format(printf, 1, 2)));

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;

  Bytes slice(size_t offset, size_t length) const {
    if (offset > size || length > size - offset) {
      corrupt("a slice of %zu bytes at %zu leaves its buffer of %zu bytes", length, offset, size);
    }
    return {data + offset, length};
  }
};

template <class T>
inline T load(const uint8_t* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

template <class T>
inline void store(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// memcpy that accepts zero bytes. (An empty buffer may have no address, which memcpy does not allow.)
inline void copy_bytes(void* to, const void* from, size_t n) {
  if (n != 0) {
    std::memcpy(to, from, n);
  }
}

inline size_t ceil8(size_t bits) { return bits / 8 + (bits % 8 != 0); }
inline size_t up8(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// Number of values in each of several consecutive chunks.
struct Counts {
  std::vector<int64_t> values;
  int64_t total = 0;

  Counts() = default;
  explicit Counts(std::vector<int64_t> per_chunk);
};

// One buffer of each of several consecutive chunks: start and length. Every chunk is inside `base`.
struct Stream {
  Bytes base;
  std::vector<int64_t> offset;
  std::vector<int64_t> length;

  size_t size() const { return offset.size(); }
  Bytes chunk(size_t i) const { return {base.data + offset[i], static_cast<size_t>(length[i])}; }
  void append(size_t at, size_t bytes);
};

void require_same_chunks(const Stream& stream, const Counts& counts);

}  // namespace lance
