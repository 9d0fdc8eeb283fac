#include "compression/zstd.hpp"

#include <algorithm>
#include <bit>

#include "base/copies.hpp"
#include "compression/xxhash.hpp"

namespace lance {
namespace {

constexpr uint32_t kMagic = 0xFD2FB528;
constexpr size_t kMaxBlock = size_t{128} << 10;

inline unsigned highest_bit(uint32_t value) { return 31u - static_cast<unsigned>(std::countl_zero(value)); }

// Reads bytes from the front. Every step is checked.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}

  size_t left() const { return bytes_.size - position_; }

  Bytes take(size_t n) {
    if (n > left()) {
      corrupt("a ZSTD frame ends inside %zu bytes at %zu of a part of %zu", n, position_, bytes_.size);
    }
    Bytes taken{bytes_.data + position_, n};
    position_ += n;
    return taken;
  }

  // Reads a little-endian number of `n` bytes, at most 8.
  uint64_t number(size_t n) {
    uint64_t value = 0;
    Bytes taken = take(n);
    for (size_t i = 0; i < n; ++i) {
      value |= uint64_t{taken.data[i]} << (8 * i);
    }
    return value;
  }

 private:
  Bytes bytes_;
  size_t position_ = 0;
};

// Reads bits from the last to the first. The highest set bit of the last byte only marks the end.
//
// The first `used_` bits of `word_` are read, and the next bits follow. Once all bytes are in the word, `used_` can
// pass its end: then bits are invented, which `is_done` reports afterwards. No byte before the first one is accessed.
class BackwardBits {
 public:
  static constexpr unsigned kFresh = 56;  // least number of bits after `refill`, unless fewer are left

  explicit BackwardBits(Bytes bytes) : begin_(bytes.data), next_(bytes.data) {
    if (bytes.size == 0 || bytes.data[bytes.size - 1] == 0) {
      corrupt("a ZSTD bit stream of %zu bytes without its end mark", bytes.size);
    }
    auto mark = static_cast<unsigned>(std::countl_zero(bytes.data[bytes.size - 1])) + 1;
    if (bytes.size >= 8) {
      next_ = bytes.data + bytes.size - 8;
      word_ = load<uint64_t>(next_);
      used_ = mark;
    } else {
      std::memcpy(&word_, bytes.data, bytes.size);  // supported hosts are little-endian
      used_ = 64 - 8 * static_cast<unsigned>(bytes.size) + mark;
    }
  }

  uint64_t look(unsigned n) const { return (word_ << (used_ & 63)) >> 1 >> (63 - n); }  // n is in 0..63
  void skip(unsigned n) { used_ += n; }
  uint64_t read(unsigned n) {
    uint64_t value = look(n);
    used_ += n;
    return value;
  }

  void refill() {
    if (has_word()) {
      refill_inside();
      return;
    }
    auto bytes = std::min<size_t>(used_ >> 3, static_cast<size_t>(next_ - begin_));
    if (bytes != 0) {
      next_ -= bytes;
      used_ -= 8 * static_cast<unsigned>(bytes);
      word_ = load<uint64_t>(next_);
    }
  }
  // Like `refill`, but faster. At least 8 bytes must be left.
  void refill_inside() {
    next_ -= used_ >> 3;
    used_ &= 7;
    word_ = load<uint64_t>(next_);
  }
  bool has_word() const { return next_ - begin_ >= 8; }

  bool is_done() const { return next_ == begin_ && used_ == 64; }
  bool is_overrun() const { return next_ == begin_ && used_ > 64; }

 private:
  const uint8_t* begin_;
  const uint8_t* next_;
  uint64_t word_ = 0;
  unsigned used_;
};

// Frequency of each symbol among 2^log states; -1 means less than one.
struct Distribution {
  unsigned log;
  size_t num_symbols;
  int16_t counts[256];
};

// Reads bits from the first to the last.
class ForwardBits {
 public:
  explicit ForwardBits(Bytes bytes) : bytes_(bytes) {}

  uint32_t look(unsigned n) const {  // n is in 0..25
    uint32_t word = 0;
    size_t at = position_ / 8, left = bytes_.size - at;
    if (left >= 4) {
      word = load<uint32_t>(bytes_.data + at);
    } else {
      copy_bytes(&word, bytes_.data + at, left);
    }
    return (word >> (position_ % 8)) & ((1u << n) - 1);
  }
  void skip(unsigned n) {
    position_ += n;
    if (position_ > bytes_.size * 8) {
      corrupt("a ZSTD table ends inside its counts");
    }
  }
  uint32_t read(unsigned n) {
    uint32_t value = look(n);
    skip(n);
    return value;
  }
  size_t num_bytes() const { return ceil8(position_); }

 private:
  Bytes bytes_;
  size_t position_ = 0;
};

Distribution read_distribution(Cursor& cursor, unsigned max_log, size_t max_symbols) {
  Cursor rest = cursor;
  ForwardBits bits(rest.take(rest.left()));
  Distribution found{bits.read(4) + 5, 0, {}};
  if (found.log > max_log) {
    corrupt("a ZSTD table of 2^%u states where 2^%u are the most", found.log, max_log);
  }
  int left = 1 << found.log;
  while (left > 0) {
    if (found.num_symbols >= max_symbols) {
      corrupt("a ZSTD table of more than %zu symbols", max_symbols);
    }
    // Values up to left + 1 have variable widths: low values take one bit less.
    auto most = static_cast<uint32_t>(left + 1);
    unsigned width = highest_bit(most) + 1;
    uint32_t half = (1u << (width - 1)) - 1, num_short = (1u << width) - 1 - most;
    uint32_t value = bits.look(width);
    if ((value & half) < num_short) {
      value &= half;
      bits.skip(width - 1);
    } else {
      value -= value > half ? num_short : 0;
      bits.skip(width);
    }
    int count = static_cast<int>(value) - 1;
    left -= count < 0 ? 1 : count;
    found.counts[found.num_symbols++] = static_cast<int16_t>(count);
    for (uint32_t zeros = count == 0 ? 3 : 0; zeros == 3;) {
      zeros = bits.read(2);
      if (found.num_symbols + zeros > max_symbols) {
        corrupt("a ZSTD table of more than %zu symbols", max_symbols);
      }
      std::fill_n(found.counts + found.num_symbols, zeros, int16_t{0});
      found.num_symbols += zeros;
    }
  }
  if (left != 0) {
    corrupt("a ZSTD table whose counts do not fill it");
  }
  cursor.take(bits.num_bytes());
  return found;
}

// A state of an entropy coder: its symbol, and the way to the next state. In sequences the symbol means `base` plus a
// number of `extra_bits`.
struct State {
  uint16_t next;
  uint8_t bits;
  uint8_t extra_bits;
  uint32_t base;
};

// Distributes symbols over states. `make(state, symbol)` stores the symbol.
template <class Make>
void build_states(const Distribution& distribution, State* states, Make make) {
  uint32_t size = 1u << distribution.log, high = size;
  uint8_t symbols[512];
  uint16_t next[256];
  for (size_t s = 0; s < distribution.num_symbols; ++s) {
    int count = distribution.counts[s];
    next[s] = static_cast<uint16_t>(count < 0 ? 1 : count);
    if (count < 0) {
      symbols[--high] = static_cast<uint8_t>(s);
    }
  }
  uint32_t step = (size >> 1) + (size >> 3) + 3, place = 0;
  for (size_t s = 0; s < distribution.num_symbols; ++s) {
    for (int i = 0; i < distribution.counts[s]; ++i) {
      symbols[place] = static_cast<uint8_t>(s);
      do {
        place = (place + step) & (size - 1);
      } while (place >= high && high != 0);
    }
  }
  for (uint32_t i = 0; i < size; ++i) {
    uint32_t n = next[symbols[i]]++;
    unsigned bits = distribution.log - highest_bit(n);
    states[i].next = static_cast<uint16_t>((n << bits) - size);
    states[i].bits = static_cast<uint8_t>(bits);
    make(states[i], symbols[i]);
  }
}

// One of the three kinds of numbers in a sequence.
struct NumberKind {
  const char* name;
  unsigned max_log;
  size_t num_codes;
  unsigned default_log;
  size_t num_defaults;
  int8_t defaults[53];
  // Least number of a code, and the number of bits that are added to it.
  uint32_t (*base)(unsigned code);
  unsigned (*extra_bits)(unsigned code);
};

constexpr uint8_t kLiteralBits[36] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
                                      1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr uint8_t kMatchBits[53] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0, 0,
                                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  1,  1,  1, 1,
                                    2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// Returns the least number of a code. Codes cover numbers without gaps.
template <size_t N>
uint32_t sum_of_spans(const uint8_t (&bits)[N], unsigned code) {
  uint32_t base = 0;
  for (unsigned i = 0; i < code; ++i) {
    base += 1u << bits[i];
  }
  return base;
}

const NumberKind kLiterals = {
    "literals",
    9,
    36,
    6,
    36,
    {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
    [](unsigned code) { return sum_of_spans(kLiteralBits, code); },
    [](unsigned code) -> unsigned { return kLiteralBits[code]; }};
const NumberKind kOffsets = {
    "offsets",
    8,
    32,
    5,
    29,
    {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1},
    [](unsigned code) { return 1u << code; },
    [](unsigned code) { return code; }};
const NumberKind kMatches = {"matches",
                             9,
                             53,
                             6,
                             53,
                             {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
                             [](unsigned code) { return 3 + sum_of_spans(kMatchBits, code); },
                             [](unsigned code) -> unsigned { return kMatchBits[code]; }};

// The state table of one kind of numbers.
struct NumberTable {
  unsigned log = 0;
  bool is_known = false;
  State states[512];

  void build(const NumberKind& kind, const Distribution& distribution) {
    build_states(distribution, states, [&](State& state, unsigned code) {
      state.base = kind.base(code);
      state.extra_bits = static_cast<uint8_t>(kind.extra_bits(code));
    });
    log = distribution.log;
    is_known = true;
  }

  void build_default(const NumberKind& kind) {
    Distribution distribution{kind.default_log, kind.num_defaults, {}};
    std::copy_n(kind.defaults, kind.num_defaults, distribution.counts);
    build(kind, distribution);
  }

  void build_single(const NumberKind& kind, unsigned code) {
    if (code >= kind.num_codes) {
      corrupt("code %u of %s in a ZSTD block", code, kind.name);
    }
    states[0] = {0, 0, static_cast<uint8_t>(kind.extra_bits(code)), kind.base(code)};
    log = 0;
    is_known = true;
  }
};

struct DefaultTables {
  NumberTable literals, offsets, matches;
  DefaultTables() {
    literals.build_default(kLiterals);
    offsets.build_default(kOffsets);
    matches.build_default(kMatches);
  }
};

// Returns the table of a block for a kind of numbers: `own`, read from the block or kept, or a predefined one.
const NumberTable* choose_table(const NumberKind& kind, unsigned mode, Cursor& cursor, const NumberTable& by_default,
                                NumberTable& own, const NumberTable* before) {
  switch (mode) {
    case 0:
      return &by_default;
    case 1:
      own.build_single(kind, static_cast<unsigned>(cursor.number(1)));
      return &own;
    case 2:
      own.build(kind, read_distribution(cursor, kind.max_log, kind.num_codes));
      return &own;
    default:
      if (before == nullptr) {
        corrupt("a ZSTD block uses the %s of the block before, where there is none", kind.name);
      }
      return before;
  }
}

// Huffman codes of up to 11 bits for literals. The next bits give the symbol and the length of its code.
struct LiteralCodes {
  static constexpr unsigned kMaxBits = 11;
  struct Code {
    uint8_t symbol;
    uint8_t bits;
  };
  unsigned bits = 0;  // 0 before the first codes
  Code codes[1 << kMaxBits];

  void read(Cursor& cursor) {
    uint8_t weights[256];
    size_t n = 0;
    auto header = static_cast<size_t>(cursor.number(1));
    if (header >= 128) {
      n = header - 127;
      Bytes packed = cursor.take((n + 1) / 2);
      for (size_t i = 0; i < n; ++i) {
        weights[i] = i % 2 == 0 ? packed.data[i / 2] >> 4 : packed.data[i / 2] & 15;
      }
    } else {
      n = read_weights(cursor.take(header), weights);
    }
    build(weights, n);
  }

  // Decodes the symbols of a stream.
  void expand(BackwardBits& stream, uint8_t* out, size_t n) const {
    size_t i = 0;
    for (; n - i >= 5; i += 5) {
      stream.refill();
      for (size_t k = 0; k < 5; ++k) {
        out[i + k] = next(stream);
      }
    }
    stream.refill();
    for (; i < n; ++i) {
      out[i] = next(stream);
    }
    stream.refill();
    if (!stream.is_done()) {
      corrupt("ZSTD literals do not end with their bits");
    }
  }

  // Decodes four streams side by side: the processor follows all of them at once.
  void expand_four(BackwardBits* streams, uint8_t* out, size_t n) const {
    size_t part = (n + 3) / 4;
    size_t i = 0, last = n - 3 * part;  // the fourth stream may be shorter
    BackwardBits a = streams[0], b = streams[1], c = streams[2], d = streams[3];
    for (; last - i >= 5 && a.has_word() && b.has_word() && c.has_word() && d.has_word(); i += 5) {
      a.refill_inside();
      b.refill_inside();
      c.refill_inside();
      d.refill_inside();
      for (size_t k = i; k < i + 5; ++k) {
        out[k] = next(a);
        out[k + part] = next(b);
        out[k + 2 * part] = next(c);
        out[k + 3 * part] = next(d);
      }
    }
    expand(a, out + i, part - i);
    expand(b, out + part + i, part - i);
    expand(c, out + 2 * part + i, part - i);
    expand(d, out + 3 * part + i, last - i);
  }

 private:
  uint8_t next(BackwardBits& stream) const {
    Code code = codes[stream.look(bits)];
    stream.skip(code.bits);
    return code.symbol;
  }

  // Decodes weights from one stream with two alternating states.
  static size_t read_weights(Bytes bytes, uint8_t* weights) {
    Cursor cursor(bytes);
    Distribution distribution = read_distribution(cursor, 6, 256);
    State states[64];
    build_states(distribution, states, [](State& state, unsigned symbol) { state.base = symbol; });
    BackwardBits stream(cursor.take(cursor.left()));
    uint64_t turns[2];
    for (uint64_t& state : turns) {
      state = stream.read(distribution.log);
    }
    stream.refill();
    if (stream.is_overrun()) {
      corrupt("ZSTD weights without a state");
    }
    for (size_t n = 0;; ++n) {
      if (n >= 254) {
        corrupt("more than 255 ZSTD weights");
      }
      const State& state = states[turns[n % 2]];
      weights[n] = static_cast<uint8_t>(std::min(state.base, 255u));
      turns[n % 2] = state.next + stream.read(state.bits);
      stream.refill();
      if (stream.is_overrun()) {  // the other state has the last weight
        weights[n + 1] = static_cast<uint8_t>(std::min(states[turns[(n + 1) % 2]].base, 255u));
        return n + 2;
      }
    }
  }

  void build(uint8_t* weights, size_t n) {
    bits = 0;
    uint32_t total = 0;
    for (size_t i = 0; i < n; ++i) {
      if (weights[i] > kMaxBits) {
        corrupt("a ZSTD weight of %u", weights[i]);
      }
      total += (1u << weights[i]) >> 1;
    }
    if (total == 0) {
      corrupt("ZSTD weights that are all zero");
    }
    // The last weight is not stored: it completes the sum to a power of two.
    unsigned width = highest_bit(total) + 1;
    if (width > kMaxBits) {
      corrupt("ZSTD codes of %u bits", width);
    }
    uint32_t rest = (1u << width) - total;
    if (!std::has_single_bit(rest)) {
      corrupt("ZSTD weights that leave %u of %u", rest, 1u << width);
    }
    weights[n++] = static_cast<uint8_t>(highest_bit(rest) + 1);
    uint32_t starts[kMaxBits + 2] = {}, at = 0;
    for (size_t i = 0; i < n; ++i) {
      starts[weights[i]] += (1u << weights[i]) >> 1;
    }
    for (unsigned weight = 1; weight <= width; ++weight) {
      uint32_t span = starts[weight];
      starts[weight] = at;
      at += span;
    }
    for (size_t i = 0; i < n; ++i) {
      if (weights[i] != 0) {
        uint32_t span = (1u << weights[i]) >> 1;
        Code code{static_cast<uint8_t>(i), static_cast<uint8_t>(width + 1 - weights[i])};
        std::fill_n(codes + starts[weights[i]], span, code);
        starts[weights[i]] += span;
      }
    }
    bits = width;
  }
};

struct FrameHeader {
  std::optional<uint64_t> content_size;
  bool has_checksum;
};

FrameHeader read_header(Cursor& cursor) {
  if (cursor.number(4) != kMagic) {
    corrupt("no ZSTD frame");
  }
  auto descriptor = static_cast<unsigned>(cursor.number(1));
  bool is_single = (descriptor & 0x20) != 0;
  if ((descriptor & 8) != 0) {
    corrupt("a ZSTD frame of an unknown kind");
  }
  if (!is_single) {
    cursor.take(1);  // skip the window size, which is not needed: the whole output is in memory
  }
  constexpr size_t kDictionaryBytes[4] = {0, 1, 2, 4};
  if (cursor.number(kDictionaryBytes[descriptor & 3]) != 0) {
    corrupt("a ZSTD frame that needs a dictionary");
  }
  FrameHeader header{std::nullopt, (descriptor & 4) != 0};
  switch (descriptor >> 6) {
    case 0:
      if (is_single) {
        header.content_size = cursor.number(1);
      }
      break;
    case 1:
      header.content_size = cursor.number(2) + 256;
      break;
    case 2:
      header.content_size = cursor.number(4);
      break;
    default:
      header.content_size = cursor.number(8);
  }
  return header;
}

}  // namespace

std::optional<uint64_t> zstd_content_size(Bytes frame) {
  Cursor cursor(frame);
  return read_header(cursor).content_size;
}

struct ZstdInflater::Tables {
  LiteralCodes codes;
  NumberTable literals, offsets, matches;
  const NumberTable *last_literals, *last_offsets, *last_matches;
  size_t repeated[3];
  Block text{kMaxBlock + kCopySlack};  // the literals of a block

  static const DefaultTables& defaults() {
    static const DefaultTables tables;
    return tables;
  }

  void begin_frame() {
    codes.bits = 0;
    last_literals = last_offsets = last_matches = nullptr;
    repeated[0] = 1;
    repeated[1] = 4;
    repeated[2] = 8;
  }

  // Reads the literals of a block into `text`. Returns their number.
  size_t read_literals(Cursor& cursor) {
    Cursor ahead = cursor;
    auto first = static_cast<unsigned>(ahead.number(1));
    unsigned kind = first & 3, format = (first >> 2) & 3;
    if (kind < 2) {
      size_t header = format == 1 ? 2 : format == 3 ? 3 : 1;
      auto n = static_cast<size_t>(cursor.number(header) >> (header == 1 ? 3 : 4));
      if (n > kMaxBlock) {
        corrupt("%zu literals in a ZSTD block", n);
      }
      if (kind == 0) {
        copy_bytes(text.data(), cursor.take(n).data, n);
      } else {
        std::memset(text.data(), static_cast<int>(cursor.number(1)), n);
      }
      return n;
    }
    constexpr unsigned kSizeBits[4] = {10, 10, 14, 18};
    unsigned width = kSizeBits[format];
    uint64_t header = cursor.number(format < 2 ? 3 : format + 2);
    uint64_t mask = (uint64_t{1} << width) - 1;
    auto n = static_cast<size_t>((header >> 4) & mask);
    Cursor packed(cursor.take(static_cast<size_t>((header >> (4 + width)) & mask)));
    if (n > kMaxBlock) {
      corrupt("%zu literals in a ZSTD block", n);
    }
    if (kind == 2) {
      codes.read(packed);
    } else if (codes.bits == 0) {
      corrupt("a ZSTD block uses the codes of the block before, where there is none");
    }
    if (format == 0) {
      BackwardBits stream(packed.take(packed.left()));
      codes.expand(stream, text.data(), n);
      return n;
    }
    size_t sizes[3];
    for (size_t& size : sizes) {
      size = static_cast<size_t>(packed.number(2));
    }
    if ((n + 3) / 4 * 3 > n) {
      corrupt("%zu literals in four ZSTD streams", n);
    }
    BackwardBits streams[4] = {BackwardBits(packed.take(sizes[0])), BackwardBits(packed.take(sizes[1])),
                               BackwardBits(packed.take(sizes[2])), BackwardBits(packed.take(packed.left()))};
    codes.expand_four(streams, text.data(), n);
    return n;
  }

  // Returns the distance for an offset of a sequence: one of the last three distances, or a new one.
  size_t distance_of(size_t offset, bool has_literals) {
    if (offset > 3) {
      repeated[2] = repeated[1];
      repeated[1] = repeated[0];
      return repeated[0] = offset - 3;
    }
    size_t index = offset - (has_literals ? 1 : 0);
    if (index == 0) {
      return repeated[0];
    }
    size_t distance = index == 3 ? repeated[0] - 1 : repeated[index];
    if (index != 1) {
      repeated[2] = repeated[1];
    }
    repeated[1] = repeated[0];
    return repeated[0] = distance;
  }

  // Decompresses a block, and returns the end of its output.
  uint8_t* inflate_block(Bytes block, const uint8_t* begin, uint8_t* out, const uint8_t* out_end) {
    Cursor cursor(block);
    size_t num_literals = read_literals(cursor);
    const uint8_t *literal = text.data(), *literals_end = literal + num_literals;
    auto num_sequences = static_cast<size_t>(cursor.number(1));
    if (num_sequences == 255) {
      num_sequences = static_cast<size_t>(cursor.number(2)) + 0x7F00;
    } else if (num_sequences >= 128) {
      num_sequences = ((num_sequences - 128) << 8) + static_cast<size_t>(cursor.number(1));
    }
    if (num_sequences != 0) {
      auto modes = static_cast<unsigned>(cursor.number(1));
      if ((modes & 3) != 0) {
        corrupt("a ZSTD block of an unknown kind");
      }
      const DefaultTables& known = defaults();
      last_literals = choose_table(kLiterals, modes >> 6, cursor, known.literals, literals, last_literals);
      last_offsets = choose_table(kOffsets, (modes >> 4) & 3, cursor, known.offsets, offsets, last_offsets);
      last_matches = choose_table(kMatches, (modes >> 2) & 3, cursor, known.matches, matches, last_matches);
      BackwardBits bits(cursor.take(cursor.left()));
      uint64_t literal_state = bits.read(last_literals->log);
      uint64_t offset_state = bits.read(last_offsets->log);
      uint64_t match_state = bits.read(last_matches->log);
      const State *literal_states = last_literals->states, *offset_states = last_offsets->states,
                  *match_states = last_matches->states;
      for (size_t i = 0;; ++i) {
        const State literals_of = literal_states[literal_state], offset_of = offset_states[offset_state],
                    match_of = match_states[match_state];
        bits.refill();
        size_t offset = offset_of.base + static_cast<size_t>(bits.read(offset_of.extra_bits));
        size_t length = match_of.base + static_cast<size_t>(bits.read(match_of.extra_bits));
        // The next states take up to 26 bits.
        if (unsigned{offset_of.extra_bits} + match_of.extra_bits + literals_of.extra_bits > BackwardBits::kFresh - 26) {
          bits.refill();
        }
        size_t n = literals_of.base + static_cast<size_t>(bits.read(literals_of.extra_bits));
        size_t distance = distance_of(offset, n != 0);
        if (n > static_cast<size_t>(literals_end - literal) || n > static_cast<size_t>(out_end - out)) {
          corrupt("a ZSTD block has fewer than %zu literals, or no place for them", n);
        }
        if (distance - 1 >= static_cast<size_t>(out - begin) + n || length > static_cast<size_t>(out_end - out) - n) {
          corrupt("a ZSTD block repeats %zu bytes from %zu before %zu", length, distance,
                  static_cast<size_t>(out - begin) + n);
        }
        copy_wide(out, literal, n);
        literal += n;
        out += n;
        repeat_bytes(out, distance, length);
        out += length;
        if (i + 1 == num_sequences) {
          break;
        }
        literal_state = literals_of.next + bits.read(literals_of.bits);
        match_state = match_of.next + bits.read(match_of.bits);
        offset_state = offset_of.next + bits.read(offset_of.bits);
      }
      bits.refill();
      if (!bits.is_done()) {
        corrupt("ZSTD sequences do not end with their bits");
      }
    } else if (cursor.left() != 0) {
      corrupt("a ZSTD block of %zu bytes more than it needs", cursor.left());
    }
    auto rest = static_cast<size_t>(literals_end - literal);
    if (rest > static_cast<size_t>(out_end - out)) {
      corrupt("a ZSTD block with more bytes than its frame");
    }
    copy_bytes(out, literal, rest);
    return out + rest;
  }
};

ZstdInflater::ZstdInflater() : tables_(new Tables) {}

ZstdInflater::~ZstdInflater() = default;

void ZstdInflater::inflate(Bytes frame, uint8_t* to, size_t size) {
  Cursor cursor(frame);
  FrameHeader header = read_header(cursor);
  tables_->begin_frame();
  uint8_t *out = to, *out_end = to + size;
  for (bool is_last = false; !is_last;) {
    auto head = static_cast<size_t>(cursor.number(3));
    is_last = (head & 1) != 0;
    size_t kind = (head >> 1) & 3, n = head >> 3;
    if (n > kMaxBlock || (kind < 2 && n > static_cast<size_t>(out_end - out))) {
      corrupt("a ZSTD block of %zu bytes with %zu left of its frame", n, static_cast<size_t>(out_end - out));
    }
    switch (kind) {
      case 0:
        copy_bytes(out, cursor.take(n).data, n);
        out += n;
        break;
      case 1:
        std::memset(out, static_cast<int>(cursor.number(1)), n);
        out += n;
        break;
      case 2:
        out = tables_->inflate_block(cursor.take(n), to, out, out_end);
        break;
      default:
        corrupt("a ZSTD block of an unknown kind");
    }
  }
  if (out != out_end) {
    corrupt("a ZSTD frame of %zu bytes holds %zu bytes instead of %zu", frame.size, static_cast<size_t>(out - to),
            size);
  }
  if (header.has_checksum && cursor.number(4) != (xxhash64({to, size}) & 0xFFFFFFFF)) {
    corrupt("a ZSTD frame of %zu bytes whose checksum differs", frame.size);
  }
}

}  // namespace lance
