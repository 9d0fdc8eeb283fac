#include "filters/float_pairs.hpp"

#include "filters/test_each.hpp"

namespace lance {
namespace {

// No comparison with NaN holds but `!=`.
template <class T, class Word>
__attribute__((always_inline)) inline void find_pairs(const uint8_t* left, const uint8_t* right, size_t count,
                                                      bool is_less, uint64_t* words) {
  if (is_less) {
    test_each<Word>(count, words, [=](size_t i) {
      T one = number_at<T>(left, i), other = number_at<T>(right, i);
      return (one == one) & !(one >= other);
    });
  } else {
    test_each<Word>(count, words, [=](size_t i) {
      T one = number_at<T>(left, i), other = number_at<T>(right, i);
      return (one == other) | ((one != one) & (other != other));
    });
  }
}

LANCE_MULTIVERSION void find_pairs_32(const uint8_t* left, const uint8_t* right, size_t count, bool is_less,
                                      uint64_t* words) {
  find_pairs<float, uint32_t>(left, right, count, is_less, words);
}
LANCE_MULTIVERSION void find_pairs_64(const uint8_t* left, const uint8_t* right, size_t count, bool is_less,
                                      uint64_t* words) {
  find_pairs<double, uint64_t>(left, right, count, is_less, words);
}

}  // namespace

Block compare_floats(Bytes left, Bytes right, unsigned bits, bool is_less, bool is_negated) {
  if (left.size != right.size || left.size % (bits / 8) != 0) {
    corrupt("%zu and %zu bytes of floats of %u bits", left.size, right.size, bits);
  }
  size_t count = left.size / (bits / 8), num_words = (count + 63) / 64;
  Block result(8 * num_words);
  auto* words = reinterpret_cast<uint64_t*>(result.data());
  (bits == 32 ? find_pairs_32 : find_pairs_64)(left.data, right.data, count, is_less, words);
  if (is_negated) {
    for (size_t i = 0; i < num_words; ++i) words[i] = ~words[i];
    if (count % 64 != 0) words[num_words - 1] &= (uint64_t{1} << (count % 64)) - 1;
  }
  return result;
}

}  // namespace lance
