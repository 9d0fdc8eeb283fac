#include "filters/matching.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bits.hpp"
#include "base/divisor.hpp"
#include "filters/blocks.hpp"
#include "filters/test_each.hpp"

namespace lance {
namespace {

// Finds the `span` + 1 integers from `lower` on. That is one comparison of unsigned numbers, for signed integers, too.
template <class T>
__attribute__((always_inline)) inline void find_integers(const uint8_t* data, size_t count, T lower, T span,
                                                         uint64_t* words) {
  test_each<T>(count, words, [=](size_t i) { return static_cast<T>(number_at<T>(data, i) - lower) <= span; });
}

// Finds the floats of an interval. No comparison with NaN holds, and NaN is the greatest of all.
template <class T, class Word>
__attribute__((always_inline)) inline void find_floats(const uint8_t* data, size_t count, T lower, T upper,
                                                       bool has_above, uint64_t* words) {
  if (has_above) {
    test_each<Word>(count, words, [=](size_t i) { return !(number_at<T>(data, i) < lower); });
  } else {
    test_each<Word>(count, words, [=](size_t i) {
      T value = number_at<T>(data, i);
      return (value >= lower) & (value <= upper);
    });
  }
}

LANCE_MULTIVERSION void find_8(const uint8_t* data, size_t count, uint8_t lower, uint8_t span, uint64_t* words) {
  find_integers<uint8_t>(data, count, lower, span, words);
}
LANCE_MULTIVERSION void find_16(const uint8_t* data, size_t count, uint16_t lower, uint16_t span, uint64_t* words) {
  find_integers<uint16_t>(data, count, lower, span, words);
}
LANCE_MULTIVERSION void find_32(const uint8_t* data, size_t count, uint32_t lower, uint32_t span, uint64_t* words) {
  find_integers<uint32_t>(data, count, lower, span, words);
}
LANCE_MULTIVERSION void find_64(const uint8_t* data, size_t count, uint64_t lower, uint64_t span, uint64_t* words) {
  find_integers<uint64_t>(data, count, lower, span, words);
}
LANCE_MULTIVERSION void find_float32(const uint8_t* data, size_t count, float lower, float upper, bool has_above,
                                     uint64_t* words) {
  find_floats<float, uint32_t>(data, count, lower, upper, has_above, words);
}
LANCE_MULTIVERSION void find_float64(const uint8_t* data, size_t count, double lower, double upper, bool has_above,
                                     uint64_t* words) {
  find_floats<double, uint64_t>(data, count, lower, upper, has_above, words);
}

void find_numbers(const uint8_t* data, size_t count, unsigned bits, bool is_float, const Interval& interval,
                  uint64_t* words) {
  uint64_t lower = interval.lower, span = interval.upper - interval.lower;
  if (is_float) {
    if (bits == 32) {
      return find_float32(data, count, std::bit_cast<float>(static_cast<uint32_t>(lower)),
                          std::bit_cast<float>(static_cast<uint32_t>(interval.upper)), interval.has_above, words);
    }
    return find_float64(data, count, std::bit_cast<double>(lower), std::bit_cast<double>(interval.upper),
                        interval.has_above, words);
  }
  switch (bits) {
    case 8:
      return find_8(data, count, static_cast<uint8_t>(lower), static_cast<uint8_t>(span), words);
    case 16:
      return find_16(data, count, static_cast<uint16_t>(lower), static_cast<uint16_t>(span), words);
    case 32:
      return find_32(data, count, static_cast<uint32_t>(lower), static_cast<uint32_t>(span), words);
    default:
      return find_64(data, count, lower, span, words);
  }
}

// Looks up a bit per index of an item.
template <class T>
void find_items(const uint8_t* data, size_t count, Bytes items, uint64_t* words) {
  for (size_t i = 0; i < count; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0, n = std::min<size_t>(64, count - i); k < n; ++k) {
      auto index = static_cast<size_t>(number_at<T>(data, i + k));
      if (index >= items.size) {
        corrupt("dictionary index %zu of %zu items", index, items.size);
      }
      word |= static_cast<uint64_t>(items.data[index] != 0) << k;
    }
    words[i / 64] = word;
  }
}

template <class T>
void find_remainders(const uint8_t* data, size_t count, const Divisor& divisor, T rest, uint64_t* words) {
  constexpr size_t kStep = 1024;
  T rests[kStep];
  for (size_t i = 0; i < count; i += kStep) {
    size_t n = std::min(kStep, count - i);
    divisor.remainders(data + i * sizeof(T), n, rests);
    test_each<std::make_unsigned_t<T>>(n, words + i / 64, [&](size_t k) { return rests[k] == rest; });
  }
}

template <class Signed>
void find_remainders(const uint8_t* data, size_t count, const Divisor& divisor, const Remainder& wanted,
                     uint64_t* words) {
  using Unsigned = std::make_unsigned_t<Signed>;
  if (wanted.is_signed) {
    find_remainders<Signed>(data, count, divisor, static_cast<Signed>(wanted.rest), words);
  } else {
    find_remainders<Unsigned>(data, count, divisor, static_cast<Unsigned>(wanted.rest), words);
  }
}

LANCE_MULTIVERSION size_t count_bits(const uint64_t* words, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) count += static_cast<size_t>(std::popcount(words[i]));
  return count;
}

// Decodes rows [start, end) in blocks, and lets `find` set a bit per value: whether it matches. `null` says whether
// null matches; `flip` exchanges the results of the values that are not null.
template <class Pages, class Find>
MatchedRows match_blocks(const Pages& page, PieceReader& file, size_t start, size_t end, size_t width, bool null,
                         bool flip, Find find) {
  check_fixed_rows(page, start, end, width);
  MatchedRows matched{Block(ceil8(end - start)), 0};
  BitWriter out(matched.bits.data());
  std::vector<uint64_t> words;
  auto add = [&](size_t count, const std::optional<Block>& validity, size_t first_value) {
    for (size_t i = 0; i < words.size(); ++i) {
      size_t n = std::min<size_t>(64, count - 64 * i);
      uint64_t all = n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
      uint64_t word = (flip ? ~words[i] : words[i]) & all;
      if (validity) {
        uint64_t valid = word_at({validity->data(), validity->size()}, first_value + 64 * i, n);
        word = (word & valid) | (null ? ~valid & all : 0);
      }
      words[i] = word;
      out.append_word(word, n);
    }
    matched.num_matching += count_bits(words.data(), words.size());
  };
  words.resize((end - start + 63) / 64);
  if (use_mapped(page, file, start, end, [&](const uint8_t* data) { find(data, end - start, words.data()); })) {
    add(end - start, std::nullopt, 0);
    return matched;
  }
  each_block(page, file, start, end, width, [&](const DecodedRows& rows, size_t, size_t count) {
    words.resize((count + 63) / 64);
    find(rows.values.data() + rows.first_value * width, count, words.data());
    add(count, rows.validity, rows.first_value);
  });
  return matched;
}

template <class Pages>
MatchedRows match_numbers(const Pages& page, PieceReader& file, size_t start, size_t end, const Intervals& intervals) {
  check_fixed_rows(page, start, end, intervals.bits / 8);
  std::vector<uint64_t> more(intervals.parts.size() > 1 ? (end - start + 63) / 64 : 0);
  auto find = [&](const uint8_t* data, size_t count, uint64_t* words) {
    size_t num_words = (count + 63) / 64;
    if (intervals.parts.empty()) std::fill(words, words + num_words, uint64_t{0});
    for (size_t k = 0; k < intervals.parts.size(); ++k) {
      find_numbers(data, count, intervals.bits, intervals.is_float, intervals.parts[k], k == 0 ? words : more.data());
      for (size_t i = 0; k != 0 && i < num_words; ++i) words[i] |= more[i];
    }
  };
  return match_blocks(page, file, start, end, intervals.bits / 8, false, intervals.is_outside, find);
}

template <class Pages>
MatchedRows match_set(const Pages& page, PieceReader& file, size_t start, size_t end, const NumberSet& numbers,
                      bool is_outside) {
  return match_blocks(page, file, start, end, numbers.bits() / 8, false, is_outside,
                      [&](const uint8_t* data, size_t count, uint64_t* words) { numbers.find(data, count, words); });
}

template <class Pages>
MatchedRows match_remainders(const Pages& page, PieceReader& file, size_t start, size_t end, const Remainder& wanted) {
  Divisor divisor(wanted.divisor);
  return match_blocks(page, file, start, end, wanted.bits / 8, false, wanted.is_outside,
                      [&](const uint8_t* data, size_t count, uint64_t* words) {
                        switch (wanted.bits) {
                          case 8:
                            return find_remainders<int8_t>(data, count, divisor, wanted, words);
                          case 16:
                            return find_remainders<int16_t>(data, count, divisor, wanted, words);
                          case 32:
                            return find_remainders<int32_t>(data, count, divisor, wanted, words);
                          default:
                            return find_remainders<int64_t>(data, count, divisor, wanted, words);
                        }
                      });
}

// Decodes the indices of a page with a dictionary, and looks up each.
template <class Pages>
MatchedRows match_indices(const Pages& page, PieceReader& file, size_t start, size_t end, const MatchingItems& items) {
  if (!page.items || items.items.size != page.items->count) {
    corrupt("results for %zu items", items.items.size);
  }
  Pages indices = page;
  indices.items.reset();
  return match_blocks(indices, file, start, end, page.bits / 8, items.null, false,
                      [&](const uint8_t* data, size_t count, uint64_t* words) {
                        switch (page.bits) {
                          case 8:
                            return find_items<uint8_t>(data, count, items.items, words);
                          case 16:
                            return find_items<uint16_t>(data, count, items.items, words);
                          case 32:
                            return find_items<uint32_t>(data, count, items.items, words);
                          default:
                            return find_items<uint64_t>(data, count, items.items, words);
                        }
                      });
}

}  // namespace

MatchedRows match_intervals(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                            const Intervals& intervals) {
  return match_numbers(page, file, start, end, intervals);
}

MatchedRows match_intervals(const FlatPage& page, PieceReader& file, size_t start, size_t end,
                            const Intervals& intervals) {
  return match_numbers(page, file, start, end, intervals);
}

MatchedRows match_listed(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, const NumberSet& numbers,
                         bool is_outside) {
  return match_set(page, file, start, end, numbers, is_outside);
}

MatchedRows match_listed(const FlatPage& page, PieceReader& file, size_t start, size_t end, const NumberSet& numbers,
                         bool is_outside) {
  return match_set(page, file, start, end, numbers, is_outside);
}

MatchedRows match_remainder(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                            const Remainder& remainder) {
  return match_remainders(page, file, start, end, remainder);
}

MatchedRows match_remainder(const FlatPage& page, PieceReader& file, size_t start, size_t end,
                            const Remainder& remainder) {
  return match_remainders(page, file, start, end, remainder);
}

MatchedRows match_items(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                        const MatchingItems& items) {
  return match_indices(page, file, start, end, items);
}

MatchedRows match_items(const FlatPage& page, PieceReader& file, size_t start, size_t end, const MatchingItems& items) {
  return match_indices(page, file, start, end, items);
}

}  // namespace lance
