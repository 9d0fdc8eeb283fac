#include "filters/list_items.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/bits.hpp"
#include "base/variable.hpp"

namespace lance {
namespace {

// A bitmap that counts the set bits before a place.
class CountedBits {
 public:
  explicit CountedBits(Bytes bits) : words_(bits.size / 8 + 1), before_(words_.size()) {
    copy_bytes(words_.data(), bits.data, bits.size);
    for (size_t i = 1; i < words_.size(); ++i) {
      before_[i] = before_[i - 1] + static_cast<uint64_t>(std::popcount(words_[i - 1]));
    }
  }

  __attribute__((always_inline)) uint64_t before(size_t at) const {
    uint64_t lower = (uint64_t{1} << (at % 64)) - 1;
    return before_[at / 64] + static_cast<uint64_t>(std::popcount(words_[at / 64] & lower));
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<uint64_t> before_;
};

template <class T>
__attribute__((always_inline)) inline void find_lists(const uint8_t* offsets, size_t num_lists,
                                                      const CountedBits& found, uint8_t* out) {
  T first = load<T>(offsets);
  uint64_t before = 0;
  for (size_t i = 0; i < num_lists; i += 8) {
    unsigned byte = 0;
    for (size_t k = 0, n = std::min<size_t>(8, num_lists - i); k < n; ++k) {
      uint64_t until = found.before(static_cast<T>(load<T>(offsets + (i + k + 1) * sizeof(T)) - first));
      byte |= static_cast<unsigned>(until != before) << k;
      before = until;
    }
    out[i / 8] = static_cast<uint8_t>(byte);
  }
}

LANCE_MULTIVERSION void find_lists_32(const uint8_t* offsets, size_t num_lists, const CountedBits& found,
                                      uint8_t* out) {
  find_lists<uint32_t>(offsets, num_lists, found, out);
}
LANCE_MULTIVERSION void find_lists_64(const uint8_t* offsets, size_t num_lists, const CountedBits& found,
                                      uint8_t* out) {
  find_lists<uint64_t>(offsets, num_lists, found, out);
}

// Checks the offsets, and that the lists have at most `most` items together.
void check_lists(Bytes offsets, size_t num_lists, unsigned offset_bits, size_t most) {
  check_offsets(offsets, num_lists, std::numeric_limits<size_t>::max(), offset_bits);
  OffsetReader offset(offsets.data, offset_bits);
  if (offset[num_lists] - offset[0] > most) {
    corrupt("%llu items of lists where there are %zu", static_cast<unsigned long long>(offset[num_lists] - offset[0]),
            most);
  }
}

template <class T>
void find_places(const uint8_t* offsets, size_t num_lists, Bytes indices, int64_t* places, uint8_t* has) {
  size_t step = indices.size == sizeof(int64_t) ? 0 : sizeof(int64_t);
  T first = load<T>(offsets), begin = first;
  for (size_t i = 0; i < num_lists; i += 8) {
    unsigned byte = 0;
    for (size_t k = 0, n = std::min<size_t>(8, num_lists - i); k < n; ++k) {
      auto index = load<int64_t>(indices.data + (i + k) * step);
      T end = load<T>(offsets + (i + k + 1) * sizeof(T));
      uint64_t length = end - begin;
      // As unsigned numbers, index 0 and those before the first item are beyond the end of any list.
      uint64_t within = static_cast<uint64_t>(index) + (index < 0 ? length : ~uint64_t{0});
      auto is_there = static_cast<uint64_t>(within < length);
      places[i + k] = static_cast<int64_t>((begin - first + within) & (0 - is_there));
      byte |= static_cast<unsigned>(is_there) << k;
      begin = end;
    }
    has[i / 8] = static_cast<uint8_t>(byte);
  }
}

}  // namespace

Block lists_with(Bytes offsets, size_t num_lists, unsigned offset_bits, Bytes found) {
  check_lists(offsets, num_lists, offset_bits, 8 * found.size);
  Block result(ceil8(num_lists));
  CountedBits bits(found);
  (offset_bits == 32 ? find_lists_32 : find_lists_64)(offsets.data, num_lists, bits, result.data());
  return result;
}

std::pair<Block, Block> list_places(Bytes offsets, size_t num_lists, unsigned offset_bits, Bytes indices) {
  check_lists(offsets, num_lists, offset_bits, std::numeric_limits<int64_t>::max());
  if (indices.size != sizeof(int64_t) && (indices.size % sizeof(int64_t) != 0 || indices.size / 8 != num_lists)) {
    corrupt("%zu bytes of indices for %zu lists", indices.size, num_lists);
  }
  std::pair<Block, Block> result{Block(num_lists * sizeof(int64_t)), Block(ceil8(num_lists))};
  auto* places = reinterpret_cast<int64_t*>(result.first.data());
  uint8_t* has = result.second.data();
  if (offset_bits == 32) {
    find_places<uint32_t>(offsets.data, num_lists, indices, places, has);
  } else {
    find_places<uint64_t>(offsets.data, num_lists, indices, places, has);
  }
  return result;
}

}  // namespace lance
