#include "filters/statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/bits.hpp"

namespace lance {
namespace {

constexpr size_t kBlock = 64;  // rows that are processed together: one word of validity

// The validity of an array, 64 rows at a time.
struct Validity {
  Bytes bits;

  uint64_t word(size_t at, size_t count) const {
    if (bits.data == nullptr) return count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    return word_at(bits, at, count);
  }
};

void require_rows(Bytes validity, size_t start, size_t n, size_t rows_per_zone) {
  if (rows_per_zone == 0) corrupt("zones without rows");
  if (n > SIZE_MAX / 64 || start > SIZE_MAX / 64 || (validity.data && validity.size < ceil8(start + n))) {
    corrupt("%zu bytes of validity for rows [%zu, %zu + %zu)", validity.size, start, start, n);
  }
}

size_t zones_of(size_t n, size_t rows_per_zone) { return n / rows_per_zone + (n % rows_per_zone != 0); }

void put_count(const Block& block, size_t zone, size_t count) {
  store<int64_t>(block.data() + 8 * zone, static_cast<int64_t>(count));
}

// A half float as an integer of the same order. NaN is outside both infinities.
struct Half {
  static constexpr int16_t kInfinity = 0x7c00, kMinusInfinity = static_cast<int16_t>(0x83ff);
  static int16_t key(int16_t bits) { return static_cast<int16_t>(bits ^ ((bits >> 15) & 0x7fff)); }
};

template <class T>
struct Limits {
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  static constexpr T least = kFloat ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  static constexpr T most = kFloat ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
};

// Bytes that are compared at once. Without AVX-512, GCC 12 splits vectors of 64 bytes into single values: a page of
// doubles took 50 times as long.
constexpr size_t kVectorBytes = 32;

// Prefetches bytes that are needed soon, because a full page is in no cache. A prefetch never faults.
inline void fetch_ahead(const uint8_t* at) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) + 4096));
}

// Several vectors of values that are compared independently, so that no comparison waits for the previous one.
template <class T>
struct Lanes {
  static constexpr size_t kBytes = kVectorBytes, kVectors = 4, kPerVector = kBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kBytes)));
};

// Bounds and number of NaNs of the values of a zone so far.
template <class T>
struct Extremes {
  T least = Limits<T>::most, most = Limits<T>::least;
  size_t num_nans = 0;

  // Comparisons with NaN are false, so NaN changes no bound.
  void add(T value) {
    least = value < least ? value : least;
    most = value > most ? value : most;
    if constexpr (Limits<T>::kFloat) num_nans += value != value;
  }
};

template <class T>
inline __attribute__((always_inline)) void add_dense(const uint8_t* values, size_t n, Extremes<T>& all) {
  using L = Lanes<T>;
  constexpr size_t kStep = L::kVectors * L::kBytes;
  size_t bytes = n * sizeof(T), done = 0;
  if (bytes >= kStep) {
    typename L::Vector least[L::kVectors], most[L::kVectors];
    // A lane of a mask is -1 if its comparison is true.
    using Mask = decltype(least[0] != least[0]);
    Mask nans[L::kVectors] = {};
    for (size_t k = 0; k < L::kVectors; ++k) {
      least[k] = all.least - typename L::Vector{};
      most[k] = all.most - typename L::Vector{};
    }
    for (; done + kStep <= bytes; done += kStep) {
      for (size_t k = 0; k < L::kVectors; ++k) {
        fetch_ahead(values + done + k * L::kBytes);
        typename L::Vector now;
        std::memcpy(&now, values + done + k * L::kBytes, L::kBytes);
        least[k] = now < least[k] ? now : least[k];
        most[k] = now > most[k] ? now : most[k];
        if constexpr (Limits<T>::kFloat) nans[k] -= now != now;
      }
    }
    for (size_t k = 0; k < L::kVectors; ++k) {
      for (size_t i = 0; i < L::kPerVector; ++i) {
        all.least = least[k][i] < all.least ? least[k][i] : all.least;
        all.most = most[k][i] > all.most ? most[k][i] : all.most;
        if constexpr (Limits<T>::kFloat) all.num_nans += static_cast<size_t>(nans[k][i]);
      }
    }
  }
  for (; done < bytes; done += sizeof(T)) all.add(load<T>(values + done));
}

constexpr auto kByteMasks = [] {
  std::array<std::array<int8_t, 8>, 256> masks{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) masks[byte][bit] = byte >> bit & 1 ? -1 : 0;
  }
  return masks;
}();

template <size_t kWidth>
using Signed =
    std::conditional_t<kWidth == 1, int8_t,
                       std::conditional_t<kWidth == 2, int16_t, std::conditional_t<kWidth == 4, int32_t, int64_t>>>;

// Blocks with nulls, up to eight values at a time. A null is replaced by a value that changes no bound.
template <class T>
struct Sparse {
  static constexpr size_t kLanes = std::min<size_t>(8, kVectorBytes / sizeof(T));
  using Bits = Signed<sizeof(T)>;
  typedef T Vector __attribute__((vector_size(kLanes * sizeof(T))));
  typedef Bits Wide __attribute__((vector_size(kLanes * sizeof(T))));
  typedef int8_t Narrow __attribute__((vector_size(kLanes)));

  // Several vectors, so that no comparison waits for the previous one.
  static constexpr size_t kVectors = 4;
  Vector least[kVectors], most[kVectors];
  Wide nans[kVectors] = {};

  Sparse() {
    for (size_t k = 0; k < kVectors; ++k) {
      least[k] = Limits<T>::most - Vector{};
      most[k] = Limits<T>::least - Vector{};
    }
  }

  inline __attribute__((always_inline)) void add(const uint8_t* values, uint64_t valid) {
    for (size_t k = 0; k < kBlock / kLanes; ++k) {
      Narrow narrow;
      std::memcpy(&narrow, kByteMasks[valid >> (kLanes * k) & ((1u << kLanes) - 1)].data(), kLanes);
      Wide there = __builtin_convertvector(narrow, Wide);
      Vector now;
      std::memcpy(&now, values + k * sizeof now, sizeof now);
      Vector &low = least[k % kVectors], &high = most[k % kVectors];
      low = (now < low) & there ? now : low;
      high = (now > high) & there ? now : high;
      if constexpr (Limits<T>::kFloat) nans[k % kVectors] -= (now != now) & there;
    }
  }

  void merge_into(Extremes<T>& all) const {
    for (size_t i = 0; i < kLanes * kVectors; ++i) {
      size_t k = i / kLanes, lane = i % kLanes;
      all.least = least[k][lane] < all.least ? least[k][lane] : all.least;
      all.most = most[k][lane] > all.most ? most[k][lane] : all.most;
      if constexpr (Limits<T>::kFloat) all.num_nans += static_cast<size_t>(nans[k][lane]);
    }
  }
};

// Adds the values of the valid rows of a zone to `all`. Returns the number of these rows.
template <class T>
inline __attribute__((always_inline)) size_t add_zone(const uint8_t* values, Validity validity, size_t at, size_t n,
                                                      Extremes<T>& all) {
  if (validity.bits.data == nullptr) {
    add_dense(values, n, all);
    return n;
  }
  Sparse<T> sparse;
  size_t num_valid = 0, dense = 0;  // number of rows before the current row that are all valid and not added yet
  for (size_t i = 0; i < n; i += kBlock) {
    size_t count = std::min(kBlock, n - i);
    uint64_t valid = validity.word(at + i, count);
    auto ones = static_cast<size_t>(std::popcount(valid));
    num_valid += ones;
    if (ones == count) {
      dense += count;
      continue;
    }
    add_dense(values + (i - dense) * sizeof(T), dense, all);
    dense = 0;
    if (count == kBlock) {
      sparse.add(values + i * sizeof(T), valid);
      continue;
    }
    for (; valid != 0; valid &= valid - 1) {
      all.add(load<T>(values + (i + static_cast<size_t>(std::countr_zero(valid))) * sizeof(T)));
    }
  }
  add_dense(values + (n - dense) * sizeof(T), dense, all);
  sparse.merge_into(all);
  return num_valid;
}

#define LANCE_ADD_ZONE(T)                                                                                          \
  LANCE_MULTIVERSION size_t add(const uint8_t* values, Validity validity, size_t at, size_t n, Extremes<T>& all) { \
    return add_zone(values, validity, at, n, all);                                                                 \
  }
LANCE_ADD_ZONE(int8_t)
LANCE_ADD_ZONE(int16_t)
LANCE_ADD_ZONE(int32_t)
LANCE_ADD_ZONE(int64_t)
LANCE_ADD_ZONE(uint8_t)
LANCE_ADD_ZONE(uint16_t)
LANCE_ADD_ZONE(uint32_t)
LANCE_ADD_ZONE(uint64_t)
LANCE_ADD_ZONE(float)
LANCE_ADD_ZONE(double)
#undef LANCE_ADD_ZONE

struct Zones {
  const uint8_t* values;  // of row 0
  Validity validity;
  size_t start, n, rows_per_zone, width;
  FixedZones& out;

  void put(size_t zone, size_t num_nulls, size_t num_nans, bool known, const void* least, const void* most) const {
    put_count(out.counts.nulls, zone, num_nulls);
    put_count(out.counts.nans, zone, num_nans);
    out.counts.known.data()[zone] = known;
    if (known) {
      copy_bytes(out.least.data() + zone * width, least, width);
      copy_bytes(out.most.data() + zone * width, most, width);
    }
  }

  template <class Visit>
  void each(Visit visit) const {
    for (size_t first = 0, zone = 0; first < n; first += rows_per_zone, ++zone) {
      visit(zone, start + first, std::min(rows_per_zone, n - first));
    }
  }
};

template <class T>
void number_zones(const Zones& zones) {
  zones.each([&](size_t zone, size_t at, size_t rows) {
    Extremes<T> all;
    size_t num_valid = add(zones.values + at * sizeof(T), zones.validity, at, rows, all);
    if constexpr (Limits<T>::kFloat) {
      if (all.least == 0) all.least = -T{0};
      if (all.most == 0) all.most = T{0};
    }
    zones.put(zone, rows - num_valid, all.num_nans, num_valid > all.num_nans, &all.least, &all.most);
  });
}

void half_zones(const Zones& zones) {
  zones.each([&](size_t zone, size_t at, size_t rows) {
    int16_t least = Half::kInfinity, most = Half::kMinusInfinity;
    size_t num_valid = 0, num_nans = 0;
    for (size_t i = 0; i < rows; i += kBlock) {
      uint64_t valid = zones.validity.word(at + i, std::min(kBlock, rows - i));
      num_valid += static_cast<size_t>(std::popcount(valid));
      for (; valid != 0; valid &= valid - 1) {
        size_t row = at + i + static_cast<size_t>(std::countr_zero(valid));
        int16_t key = Half::key(load<int16_t>(zones.values + 2 * row));
        bool is_nan = key > Half::kInfinity || key < Half::kMinusInfinity;
        num_nans += is_nan;
        least = !is_nan && key < least ? key : least;
        most = !is_nan && key > most ? key : most;
      }
    }
    // Keys 0 and -1 are both zeros.
    least = Half::key(least == 0 ? int16_t{-1} : least);
    most = Half::key(most == -1 ? int16_t{0} : most);
    zones.put(zone, rows - num_valid, num_nans, num_valid > num_nans, &least, &most);
  });
}

void bit_zones(Bytes values, const Zones& zones) {
  zones.each([&](size_t zone, size_t at, size_t rows) {
    size_t num_valid = 0, num_true = 0;
    for (size_t i = 0; i < rows; i += kBlock) {
      size_t count = std::min(kBlock, rows - i);
      uint64_t valid = zones.validity.word(at + i, count);
      num_valid += static_cast<size_t>(std::popcount(valid));
      num_true += static_cast<size_t>(std::popcount(valid & word_at(values, at + i, count)));
    }
    uint8_t least = num_true == num_valid, most = num_true > 0;
    zones.put(zone, rows - num_valid, 0, num_valid > 0, &least, &most);
  });
}

// Finds bounds by comparing two values at a time, for types that vector registers cannot compare.
template <bool kNulls, class Less>
void compared_zones(const Zones& zones, Less less) {
  zones.each([&](size_t zone, size_t at, size_t rows) {
    const uint8_t *least = nullptr, *most = nullptr;
    size_t num_valid = 0;
    for (size_t i = 0; i < rows; i += kBlock) {
      size_t count = std::min(kBlock, rows - i);
      uint64_t valid = kNulls ? zones.validity.word(at + i, count) : 0;
      const uint8_t* now = zones.values + (at + i) * zones.width;
      for (size_t k = 0; k < count; ++k, now += zones.width) {
        if (kNulls && (valid >> k & 1) == 0) continue;
        if (num_valid++ == 0) {
          least = most = now;
        } else if (less(now, least)) {
          least = now;
        } else if (less(most, now)) {
          most = now;
        }
      }
    }
    zones.put(zone, rows - num_valid, 0, num_valid > 0, least, most);
  });
}

template <class Less>
void compared_zones(const Zones& zones, Less less) {
  zones.validity.bits.data != nullptr ? compared_zones<true>(zones, less) : compared_zones<false>(zones, less);
}

// Compares values of at least eight bytes. The first eight bytes are compared first.
struct LessBytes {
  size_t width;

  static uint64_t head(const uint8_t* bytes) {
    auto word = load<uint64_t>(bytes);
    return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
  }
  bool operator()(const uint8_t* a, const uint8_t* b) const {
    uint64_t head_a = head(a), head_b = head(b);
    return head_a != head_b ? head_a < head_b : std::memcmp(a, b, width) < 0;
  }
};

// Finds bounds of 16-byte integers without a branch per comparison.
template <bool kNulls>
void wide_zones(const Zones& zones) {
  constexpr __int128 kMost = static_cast<__int128>(~static_cast<unsigned __int128>(0) >> 1), kLeast = -kMost - 1;
  zones.each([&](size_t zone, size_t at, size_t rows) {
    __int128 least = kMost, most = kLeast;
    size_t num_valid = kNulls ? 0 : rows;
    for (size_t i = 0; i < rows; i += kBlock) {
      size_t count = std::min(kBlock, rows - i);
      uint64_t valid = kNulls ? zones.validity.word(at + i, count) : 0;
      if (kNulls) num_valid += static_cast<size_t>(std::popcount(valid));
      for (size_t k = 0; k < count; ++k) {
        if (kNulls && (valid >> k & 1) == 0) continue;
        auto now = load<__int128>(zones.values + (at + i + k) * 16);
        least = now < least ? now : least;
        most = now > most ? now : most;
      }
    }
    zones.put(zone, rows - num_valid, 0, num_valid > 0, &least, &most);
  });
}

bool less_256(const uint8_t* a, const uint8_t* b) {
  __int128 high_a = load<__int128>(a + 16), high_b = load<__int128>(b + 16);
  return high_a != high_b ? high_a < high_b : load<unsigned __int128>(a) < load<unsigned __int128>(b);
}

void integer_zones(const Zones& zones, bool is_signed) {
  switch (zones.width) {
    case 1:
      return is_signed ? number_zones<int8_t>(zones) : number_zones<uint8_t>(zones);
    case 2:
      return is_signed ? number_zones<int16_t>(zones) : number_zones<uint16_t>(zones);
    case 4:
      return is_signed ? number_zones<int32_t>(zones) : number_zones<uint32_t>(zones);
    case 8:
      return is_signed ? number_zones<int64_t>(zones) : number_zones<uint64_t>(zones);
    case 16:
      if (is_signed) return zones.validity.bits.data != nullptr ? wide_zones<true>(zones) : wide_zones<false>(zones);
      break;
    case 32:
      if (is_signed) return compared_zones(zones, less_256);
      break;
    default:
      break;
  }
  corrupt("integers of %zu bytes", zones.width);
}

void float_zones(const Zones& zones) {
  switch (zones.width) {
    case 2:
      return half_zones(zones);
    case 4:
      return number_zones<float>(zones);
    case 8:
      return number_zones<double>(zones);
    default:
      corrupt("floating-point numbers of %zu bytes", zones.width);
  }
}

// ---- variable width ----

// Returns the first eight bytes of a value as a number with the same order. A shorter value is padded with zeros.
uint64_t head_of(Bytes data, size_t at, size_t length) {
  if (length == 0) return 0;
  uint64_t word = 0;
  if (data.size - at >= 8) {
    word = load<uint64_t>(data.data + at);
  } else {
    std::memcpy(&word, data.data + at, data.size - at);
  }
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return length >= 8 ? word : word & ~(~uint64_t{0} >> (8 * length));
}

struct Value {
  Bytes bytes;
  uint64_t head = 0;

  bool operator<(const Value& other) const {
    if (head != other.head) return head < other.head;
    size_t common = std::min(bytes.size, other.bytes.size);
    int order = common == 0 ? 0 : std::memcmp(bytes.data, other.bytes.data, common);
    return order != 0 ? order < 0 : bytes.size < other.bytes.size;
  }
};

bool continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Returns the number of bytes of a value to keep, at most `limit`. A character is not split.
size_t cut_length(Bytes value, size_t limit, bool utf8) {
  if (value.size <= limit) return value.size;
  size_t length = limit;
  for (size_t back = 0; utf8 && back < 3 && length > 0 && continues(value.data[length]); ++back) --length;
  return length;
}

// Raises the last character of UTF-8 text by one, keeping its number of bytes. Returns false if that is impossible.
bool raise_character(std::vector<uint8_t>& text) {
  size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < 4 && continues(text[start])) --start;
  size_t length = text.size() - start;
  static constexpr uint32_t kLast[] = {0, 0x7f, 0x7ff, 0xffff, 0x10ffff};
  static constexpr uint8_t kMark[] = {0, 0x00, 0xc0, 0xe0, 0xf0}, kMask[] = {0, 0x80, 0xe0, 0xf0, 0xf8};
  uint8_t lead = text[start];
  if ((lead & kMask[length]) != kMark[length]) return false;
  uint32_t code = lead & static_cast<uint8_t>(~kMask[length]);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (text[start + i] & 0x3f);
  code = code == 0xd7ff ? 0xe000 : code + 1;  // skip the surrogates, which are no characters
  if (code > kLast[length]) return false;
  for (size_t i = length; i-- > 1; code >>= 6) text[start + i] = static_cast<uint8_t>(0x80 | (code & 0x3f));
  text[start] = static_cast<uint8_t>(kMark[length] | code);
  return true;
}

// Changes `text` to the shortest text above all texts that begin with it. Returns false if there is none.
bool raise(std::vector<uint8_t>& text, bool utf8) {
  for (; !text.empty(); text.pop_back()) {
    if (utf8 ? raise_character(text) : text.back() != 0xff) {
      text.back() = static_cast<uint8_t>(text.back() + (utf8 ? 0 : 1));
      return true;
    }
  }
  return false;
}

class BoundsWriter {
 public:
  explicit BoundsWriter(size_t num_zones) : bounds_{Block(num_zones), Block(4 * (num_zones + 1)), {}} {
    store<int32_t>(bounds_.offsets.data(), 0);
  }

  void put(size_t zone, bool known, const uint8_t* data, size_t size) {
    if (known) {
      if (size > INT32_MAX - text_.size()) throw OffsetOverflow("more bytes than 32-bit offsets can address");
      text_.insert(text_.end(), data, data + size);
    }
    bounds_.known.data()[zone] = known;
    store<int32_t>(bounds_.offsets.data() + 4 * (zone + 1), static_cast<int32_t>(text_.size()));
  }

  VariableBounds finish() {
    bounds_.data = Block(text_.size());
    copy_bytes(bounds_.data.data(), text_.data(), text_.size());
    return std::move(bounds_);
  }

 private:
  VariableBounds bounds_;
  std::vector<uint8_t> text_;
};

struct Found {
  size_t num_valid = 0;
  Value least, most;

  void add(const Value& value) {
    if (num_valid++ == 0) {
      least = most = value;
    } else if (value < least) {
      least = value;
    } else if (most < value) {
      most = value;
    }
  }
};

// Returns a bit for each of eight values that may be outside the extremes, judged by their first bytes. `ends` are
// offsets after the start of the first value. Eight bytes must be readable at the start of each value.
template <class Offset>
inline unsigned not_between(const uint8_t* ends, const uint8_t* data, uint64_t least, uint64_t most) {
  unsigned outside = 0;
  for (unsigned k = 0; k < 8; ++k) {
    auto begin = static_cast<uint64_t>(load<Offset>(ends + k * sizeof(Offset)));
    uint64_t length = static_cast<uint64_t>(load<Offset>(ends + (k + 1) * sizeof(Offset))) - begin;
    uint64_t head = load<uint64_t>(data + begin);
    fetch_ahead(data + begin);
    if constexpr (std::endian::native == std::endian::little) head = __builtin_bswap64(head);
    head &= length < 8 ? ~(~uint64_t{0} >> (8 * length)) : ~uint64_t{0};
    outside |= static_cast<unsigned>((head <= least) | (head >= most)) << k;
  }
  return outside;
}

template <class Offset>
inline bool ascend(const uint8_t* ends, uint64_t limit) {
  bool good = static_cast<uint64_t>(load<Offset>(ends + 8 * sizeof(Offset))) <= limit;
  for (size_t k = 0; k < 8; ++k) {
    good &= load<Offset>(ends + k * sizeof(Offset)) <= load<Offset>(ends + (k + 1) * sizeof(Offset));
  }
  return good;
}

// Adds the values of a zone, eight at a time, except near the end of the bytes.
template <class Offset, bool kNulls>
Found find_extremes(Bytes offsets, Bytes data, Validity validity, size_t at, size_t rows) {
  Found found;
  const uint8_t* ends = offsets.data + at * sizeof(Offset);
  uint64_t limit = data.size < 8 ? 0 : data.size - 8;
  for (size_t i = 0; i < rows; i += 8) {
    size_t count = std::min<size_t>(8, rows - i);
    uint64_t valid = kNulls ? validity.word(at + i, count) : (1u << count) - 1;
    const uint8_t* group = ends + i * sizeof(Offset);
    fetch_ahead(group);
    if (found.num_valid != 0 && count == 8 && limit != 0 && ascend<Offset>(group, limit)) {
      uint64_t outside = valid & not_between<Offset>(group, data.data, found.least.head, found.most.head);
      found.num_valid += static_cast<size_t>(std::popcount(valid ^ outside));
      valid = outside;
    }
    for (; valid != 0; valid &= valid - 1) {
      auto k = static_cast<size_t>(std::countr_zero(valid));
      auto begin = static_cast<uint64_t>(load<Offset>(group + k * sizeof(Offset)));
      auto end = static_cast<uint64_t>(load<Offset>(group + (k + 1) * sizeof(Offset)));
      if (begin > end || end > data.size) {
        corrupt("value %zu lies at [%llu, %llu) of %zu bytes", at + i + k, static_cast<unsigned long long>(begin),
                static_cast<unsigned long long>(end), data.size);
      }
      found.add({{data.data + begin, end - begin}, head_of(data, begin, end - begin)});
    }
  }
  return found;
}

template <class Offset>
Found find_extremes(Bytes offsets, Bytes data, Validity validity, size_t at, size_t rows) {
  return validity.bits.data != nullptr ? find_extremes<Offset, true>(offsets, data, validity, at, rows)
                                       : find_extremes<Offset, false>(offsets, data, validity, at, rows);
}

}  // namespace

FixedZones fixed_zones(Bytes values, Bytes validity, size_t start, size_t n, size_t rows_per_zone, Order order,
                       size_t width) {
  require_rows(validity, start, n, rows_per_zone);
  if (width == 0 || width > (1u << 20) || (order == Order::bits && width != 1)) corrupt("values of %zu bytes", width);
  auto bytes = static_cast<unsigned __int128>(start + n) * width;
  if (order == Order::bits ? ceil8(start + n) > values.size : bytes > values.size) {
    corrupt("%zu bytes for rows [%zu, %zu + %zu) of %zu bytes", values.size, start, start, n, width);
  }
  size_t num_zones = zones_of(n, rows_per_zone);
  FixedZones out{{Block(8 * num_zones), Block(8 * num_zones), Block(num_zones)},
                 Block(width * num_zones),
                 Block(width * num_zones)};
  if (num_zones == 0) return out;
  std::memset(out.least.data(), 0, width * num_zones);
  std::memset(out.most.data(), 0, width * num_zones);
  Zones zones{values.data, {validity}, start, n, rows_per_zone, width, out};
  switch (order) {
    case Order::bits:
      bit_zones(values, zones);
      break;
    case Order::signed_integers:
      integer_zones(zones, true);
      break;
    case Order::unsigned_integers:
      integer_zones(zones, false);
      break;
    case Order::floats:
      float_zones(zones);
      break;
    case Order::bytes:
      if (width >= 8) {
        compared_zones(zones, LessBytes{width});
      } else {
        compared_zones(zones, [width](const uint8_t* a, const uint8_t* b) { return std::memcmp(a, b, width) < 0; });
      }
      break;
  }
  return out;
}

VariableZones variable_zones(Bytes offsets, Bytes data, Bytes validity, size_t start, size_t n, size_t rows_per_zone,
                             unsigned offset_bits, size_t limit, bool utf8) {
  require_rows(validity, start, n, rows_per_zone);
  if (offset_bits != 32 && offset_bits != 64) corrupt("offsets of %u bits", offset_bits);
  if (n != 0 && offsets.size / (offset_bits / 8) < start + n + 1) {
    corrupt("%zu bytes of offsets for rows [%zu, %zu + %zu)", offsets.size, start, start, n);
  }
  size_t num_zones = zones_of(n, rows_per_zone);
  Block nulls(8 * num_zones);
  BoundsWriter least(num_zones), most(num_zones);
  std::vector<uint8_t> upper;
  for (size_t first = 0, zone = 0; first < n; first += rows_per_zone, ++zone) {
    size_t at = start + first, rows = std::min(rows_per_zone, n - first);
    Found found = offset_bits == 32 ? find_extremes<uint32_t>(offsets, data, {validity}, at, rows)
                                    : find_extremes<uint64_t>(offsets, data, {validity}, at, rows);
    put_count(nulls, zone, rows - found.num_valid);
    bool known = found.num_valid > 0;
    least.put(zone, known, found.least.bytes.data, cut_length(found.least.bytes, limit, utf8));
    Bytes value = found.most.bytes;
    size_t length = cut_length(value, limit, utf8);
    upper.assign(value.data, value.data + length);
    bool has_upper = known && (length == value.size || raise(upper, utf8));
    most.put(zone, has_upper, upper.data(), upper.size());
  }
  return {std::move(nulls), least.finish(), most.finish()};
}

}  // namespace lance
