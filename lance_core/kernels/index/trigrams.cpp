#include "index/trigrams.hpp"

#include <array>
#include <bitset>
#include <memory>

#include "base/variable.hpp"

namespace lance {
namespace {

constexpr uint32_t kBase = 37;
constexpr uint32_t kNoCharacter = 256;
constexpr size_t kTokens = 255 * (kBase * kBase + kBase + 1) + 1;

// Numbers of characters: digits are 1-10, lower-case letters 11-36. Upper-case letters, which only replace other
// characters of lower-case texts, have the numbers that the reference gives them: 11 plus the distance from 'a',
// modulo 256.
constexpr std::array<uint32_t, 256> character_numbers() {
  std::array<uint32_t, 256> numbers{};
  for (uint32_t& number : numbers) number = kNoCharacter;
  for (uint32_t i = 0; i < 10; ++i) numbers['0' + i] = 1 + i;
  for (uint32_t i = 0; i < 26; ++i) {
    numbers['a' + i] = 11 + i;
    numbers['A' + i] = (256 + 11 + 'A' - 'a' + i) % 256;
  }
  return numbers;
}
constexpr std::array<uint32_t, 256> kNumbers = character_numbers();

}  // namespace

Trigrams find_trigrams(Bytes offsets, Bytes data, size_t n, unsigned offset_bits) {
  check_offsets(offsets, n, data.size, offset_bits);
  OffsetReader ends(offsets.data, offset_bits);
  size_t most = n == 0 ? 0 : ends[n] - ends[0];
  Trigrams found{Block(4 * most), Block(4 * most)};
  auto seen = std::make_unique<std::bitset<kTokens>>();
  size_t count = 0;
  for (size_t row = 0; row < n; ++row) {
    size_t first = count;
    uint32_t last = 0, before_last = 0;  // numbers of the two characters before
    size_t length = 0;                   // of the run of letters and digits that ends here
    for (uint64_t at = ends[row]; at < ends[row + 1]; ++at) {
      uint32_t number = kNumbers[data.data[at]];
      length = number == kNoCharacter ? 0 : length + 1;
      uint32_t token = (before_last * kBase + last) * kBase + number;
      before_last = last;
      last = number;
      if (length < 3 || seen->test(token)) continue;
      seen->set(token);
      store(found.tokens.data() + 4 * count, token);
      store(found.rows.data() + 4 * count, static_cast<uint32_t>(row));
      ++count;
    }
    for (size_t i = first; i < count; ++i) seen->reset(load<uint32_t>(found.tokens.data() + 4 * i));
  }
  found.tokens.resize(4 * count);
  found.rows.resize(4 * count);
  return found;
}

}  // namespace lance
