// Tests of many values that give a bit each, in loops that compilers turn into comparisons of vectors.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/common.hpp"

namespace lance {

template <class T>
__attribute__((always_inline)) inline T number_at(const uint8_t* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// The bits of a word, one by one.
template <class Word>
struct Bits {
  Word values[8 * sizeof(Word)];
  constexpr Bits() : values() {
    for (size_t i = 0; i < 8 * sizeof(Word); ++i) values[i] = static_cast<Word>(Word{1} << i);
  }
};
template <class Word>
constexpr Bits<Word> kBits;

// Sets a bit per value, in words of 64, to whether `test` holds for its number. The bits after the last one are zero.
// `Word` is as wide as a value: so its bits are chosen by the results of comparing vectors, and joined as vectors.
template <class Word, class Test>
__attribute__((always_inline)) inline void test_each(size_t count, uint64_t* words, Test test) {
  constexpr size_t kStep = 8 * sizeof(Word);
  auto* out = reinterpret_cast<uint8_t*>(words);
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    Word word = 0;
    for (size_t k = 0; k < kStep; ++k) {
      word |= test(i + k) ? kBits<Word>.values[k] : Word{0};
    }
    store<Word>(out + i / 8, word);
  }
  size_t end = (count + 63) / 64 * 64;
  if (i < end) {
    std::memset(out + i / 8, 0, (end - i) / 8);
    for (; i < count; ++i) {
      out[i / 8] = static_cast<uint8_t>(out[i / 8] | (test(i) << (i % 8)));
    }
  }
}

}  // namespace lance
