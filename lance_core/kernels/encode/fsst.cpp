#include "encode/fsst.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "codecs/fsst.hpp"

namespace lance {
namespace {

constexpr size_t kTableBytes = 2312;
constexpr size_t kMaxSymbols = 255;
constexpr uint8_t kEscape = 255;
constexpr int kGenerations = 5;
constexpr size_t kSlots = 1024;  // for symbols of at least three bytes, by a hash of their first three bytes

struct Symbol {
  uint64_t bytes;  // first byte lowest; bytes after the symbol are zero
  unsigned length;

  bool operator==(const Symbol& other) const { return bytes == other.bytes && length == other.length; }
};

inline uint64_t low_bytes(uint64_t word, size_t n) { return n >= 8 ? word : word & ((uint64_t{1} << (8 * n)) - 1); }
inline size_t slot_of(uint64_t word, uint64_t seed) {
  return static_cast<size_t>(((word & 0xffffff) * seed) >> 40) % kSlots;
}

// Seeds of hashes to choose from: symbols that share a slot with one seed do not share it with another.
constexpr std::array<uint64_t, 8> kSeeds = {0x9e3779b97f4a7c15u, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u,
                                            0x589965cc75374cc3u, 0x1d8e4e27c47d124fu, 0xeb44accab455d165u,
                                            0xa0761d6478bd642fu, 0xd6e8feb86659fd93u};

// Marks the taken slots.
class Slots {
 public:
  explicit Slots(uint64_t seed) : seed_(seed) {}

  // Returns whether the symbol can be found. Only the first of the symbols that share a slot can.
  bool add(const Symbol& symbol) {
    if (symbol.length < 3) return true;
    bool& taken = taken_[slot_of(symbol.bytes, seed_)];
    return !std::exchange(taken, true);
  }

 private:
  uint64_t seed_;
  std::array<bool, kSlots> taken_{};
};

// A code and the number of bytes that it stands for.
struct Match {
  uint8_t code;
  uint8_t length;
};
constexpr Match kNoMatch = {kEscape, 1};

// Finds the longest symbol at a position. If several symbols of at least three bytes share a slot, only the first one
// added is found. So symbols are added in the order of their gain.
class Matcher {
 public:
  explicit Matcher(uint64_t seed) : seed_(seed) {
    slots_.fill({0, kNoMatch, 0});  // a slot without a symbol matches no bytes
    pairs_.fill(kNoMatch);
    singles_.fill(kNoMatch);
  }

  void add(const Symbol& symbol, uint8_t code) {
    Match match{code, static_cast<uint8_t>(symbol.length)};
    if (symbol.length >= 3) {
      Slot& slot = slots_[slot_of(symbol.bytes, seed_)];
      if (slot.match.code != kEscape) {
        return;
      }
      slot = {symbol.bytes, match, static_cast<uint16_t>(64 - 8 * symbol.length)};
    } else if (symbol.length == 2) {
      pairs_[symbol.bytes] = match;
    } else {
      singles_[symbol.bytes] = match;
      for (size_t second = 0; second < 256; ++second) {
        Match& entry = pairs_[symbol.bytes | second << 8];
        if (entry.length != 2) {
          entry = match;
        }
      }
    }
  }

  // `word` begins with the next `left` bytes; `left` is at least 1.
  Match find(uint64_t word, size_t left) const {
    const Slot& slot = slots_[slot_of(word, seed_)];
    Match match = pairs_[word & 0xffff];
    if ((word ^ slot.bytes) << slot.ignored_bits == 0) {
      match = slot.match;
    }
    if (match.length > left) {
      // The symbol extends beyond the end of the value.
      word = low_bytes(word, left);
      match = left == 1 ? singles_[word] : pairs_[word & 0xffff];
    }
    return match;
  }

 private:
  struct Slot {
    uint64_t bytes;
    Match match;
    uint16_t ignored_bits;  // bits of a word above the symbol
  };
  uint64_t seed_;
  std::array<Slot, kSlots> slots_;
  std::array<Match, 65536> pairs_;
  std::array<Match, 256> singles_;
};

inline uint64_t load_word(const uint8_t* from, size_t left) {
  if (left >= 8) {
    return load<uint64_t>(from);
  }
  uint64_t word = 0;
  std::memcpy(&word, from, left);
  return word;
}

struct Value {
  const uint8_t* data;
  size_t size;
};

// Takes values that are evenly spread, about `sample_bytes` in total. Long values are cut.
std::vector<Value> take_sample(Bytes offsets, Bytes data, size_t n, unsigned offset_bits, size_t sample_bytes) {
  check_offsets(offsets, n, data.size, offset_bits);
  std::vector<Value> sample;
  if (n == 0) {
    return sample;
  }
  OffsetReader offset(offsets.data, offset_bits);
  size_t total = offset[n] - offset[0];
  size_t step = std::max<size_t>(1, total / std::max<size_t>(sample_bytes, 1));
  size_t longest = std::max<size_t>(sample_bytes / 16, 64);
  size_t taken = 0;
  for (size_t i = 0; i < n && taken < 2 * sample_bytes; i += step) {
    size_t begin = offset[i];
    size_t size = std::min<size_t>(offset[i + 1] - begin, longest);
    if (size != 0) {
      sample.push_back({data.data + begin, size});
      taken += size;
    }
  }
  return sample;
}

// Candidates for symbols with their gains, in a hash table by their bytes.
class Candidates {
 public:
  struct Candidate {
    Symbol symbol;
    uint64_t gain;
  };

  Candidates() : places_(kPlaces, 0) {}

  void add(const Symbol& symbol, uint64_t gain) {
    size_t place = static_cast<size_t>((symbol.bytes + symbol.length) * 0x9e3779b97f4a7c15u >> 48) % kPlaces;
    while (places_[place] != 0) {
      Candidate& known = all_[places_[place] - 1];
      if (known.symbol == symbol) {
        known.gain += gain;
        return;
      }
      place = (place + 1) % kPlaces;
    }
    if (all_.size() < kPlaces / 2) {
      all_.push_back({symbol, gain});
      places_[place] = static_cast<uint32_t>(all_.size());
    }
  }

  // Returns candidates by descending gain. Equal gains have a fixed order, so that the same values give the same table.
  std::vector<Candidate> best() {
    auto better = [](const Candidate& a, const Candidate& b) {
      return a.gain != b.gain                     ? a.gain > b.gain
             : a.symbol.length != b.symbol.length ? a.symbol.length > b.symbol.length
                                                  : a.symbol.bytes < b.symbol.bytes;
    };
    size_t kept = std::min<size_t>(all_.size(), 4 * kMaxSymbols);
    std::partial_sort(all_.begin(), all_.begin() + static_cast<ptrdiff_t>(kept), all_.end(), better);
    all_.resize(kept);
    return std::move(all_);
  }

 private:
  static constexpr size_t kPlaces = 1 << 15;
  std::vector<uint32_t> places_;  // position in `all_` plus one
  std::vector<Candidate> all_;
};

// Returns a matcher of these symbols, with the hash that loses the fewest of them. It loses none of a trainer's
// symbols.
std::unique_ptr<Matcher> matcher_of(const std::vector<Symbol>& symbols) {
  uint64_t best = kSeeds[0];
  size_t least = symbols.size() + 1;
  for (uint64_t seed : kSeeds) {
    Slots slots(seed);
    auto lost = static_cast<size_t>(
        std::count_if(symbols.begin(), symbols.end(), [&](const Symbol& symbol) { return !slots.add(symbol); }));
    if (lost < least) {
      least = lost;
      best = seed;
    }
  }
  auto matcher = std::make_unique<Matcher>(best);
  for (size_t i = 0; i < symbols.size(); ++i) {
    matcher->add(symbols[i], static_cast<uint8_t>(i));
  }
  return matcher;
}

// Finds symbols in a few rounds. Each round codes the sample with the current symbols, and keeps those symbols and
// pairs of symbols that gain most. A byte without a symbol counts as a symbol of its own.
class Trainer {
 public:
  explicit Trainer(const std::vector<Value>& sample) : sample_(sample), pair_(kCodes * kCodes) {}

  std::vector<Symbol> run() {
    std::vector<Symbol> symbols;
    for (int generation = 0; generation < kGenerations; ++generation) {
      count(symbols);
      symbols = choose(symbols, generation + 1 < kGenerations);
    }
    return symbols;
  }

 private:
  static constexpr size_t kCodes = 512;  // symbols, then single bytes

  void count(const std::vector<Symbol>& symbols) {
    auto matcher = matcher_of(symbols);
    single_.fill(0);
    std::fill(pair_.begin(), pair_.end(), uint16_t{0});
    for (const Value& value : sample_) {
      size_t previous = kCodes;
      size_t previous_length = 0;
      for (size_t at = 0; at < value.size;) {
        size_t left = value.size - at;
        uint64_t word = load_word(value.data + at, left);
        Match match = matcher->find(word, left);
        size_t byte = 256 + (word & 0xff);
        size_t code = match.code == kEscape ? byte : match.code;
        note(previous, code);
        // A symbol may have grown too long, or the previous one may be one byte too short. After a symbol of seven
        // bytes, the next byte makes the same new symbol as the whole next symbol.
        if (match.length > 1) {
          note(previous_length == 7 ? kCodes : previous, byte);
        }
        previous = code;
        previous_length = match.length;
        at += match.length;
      }
    }
  }

  void note(size_t previous, size_t code) {
    ++single_[code];
    if (previous != kCodes) {
      uint16_t& count = pair_[previous * kCodes + code];
      count = static_cast<uint16_t>(count + (count != UINT16_MAX));
    }
  }

  static Symbol symbol_of(const std::vector<Symbol>& symbols, size_t code) {
    return code < 256 ? symbols[code] : Symbol{code - 256, 1};
  }

  std::vector<Symbol> choose(const std::vector<Symbol>& symbols, bool grow) const {
    Candidates candidates;
    for (size_t code = 0; code < kCodes; ++code) {
      if (single_[code] == 0) {
        continue;
      }
      Symbol symbol = symbol_of(symbols, code);
      // A byte without a symbol takes two bytes, so a symbol of one byte gains more than its length.
      candidates.add(symbol, uint64_t{single_[code]} * (symbol.length == 1 ? 8 : symbol.length));
      if (!grow || symbol.length == 8) {
        continue;
      }
      for (size_t next = 0; next < kCodes; ++next) {
        uint16_t count = pair_[code * kCodes + next];
        if (count >= kRare) {
          Symbol second = symbol_of(symbols, next);
          unsigned length = std::min(8u, symbol.length + second.length);
          uint64_t bytes = low_bytes(symbol.bytes | second.bytes << (8 * symbol.length), length);
          candidates.add({bytes, length}, uint64_t{count} * length);
        }
      }
    }
    std::vector<Candidates::Candidate> best = candidates.best();
    std::vector<Symbol> chosen;
    uint64_t most = 0;
    for (uint64_t seed : kSeeds) {
      auto [found, gain] = choose_for(best, seed);
      if (gain > most) {
        most = gain;
        chosen = std::move(found);
      }
    }
    return chosen;
  }

  // Returns the symbols that are kept with one hash, and their gain.
  static std::pair<std::vector<Symbol>, uint64_t> choose_for(const std::vector<Candidates::Candidate>& best,
                                                             uint64_t seed) {
    Slots slots(seed);
    std::vector<Symbol> chosen;
    uint64_t gain = 0;
    for (const Candidates::Candidate& candidate : best) {
      if (chosen.size() == kMaxSymbols) {
        break;
      }
      if (slots.add(candidate.symbol)) {
        chosen.push_back(candidate.symbol);
        gain += candidate.gain;
      }
    }
    return {std::move(chosen), gain};
  }

  static constexpr uint16_t kRare = 3;  // rarer pairs gain nothing
  const std::vector<Value>& sample_;
  std::array<uint32_t, kCodes> single_{};
  std::vector<uint16_t> pair_;
};

std::unique_ptr<Matcher> matcher_of(Bytes table) {
  SymbolTable parsed = parse_symbol_table(table);
  if (!parsed.codes) {
    corrupt("a symbol table without codes");
  }
  std::vector<Symbol> symbols;
  for (unsigned i = 0; i < parsed.num_symbols; ++i) {
    symbols.push_back({low_bytes(parsed.symbol[i], parsed.length[i]), parsed.length[i]});
  }
  return matcher_of(symbols);
}

// Codes one value. `out` has room for two bytes per byte.
uint8_t* encode(const Matcher& matcher, const uint8_t* from, size_t size, uint8_t* out) {
  const uint8_t* end = from + size;
  while (from < end) {
    auto left = static_cast<size_t>(end - from);
    uint64_t word = load_word(from, left);
    Match match = matcher.find(word, left);
    *out++ = static_cast<uint8_t>(match.code);
    if (match.code == kEscape) {
      *out++ = static_cast<uint8_t>(word);
    }
    from += match.length;
  }
  return out;
}

// A range of values that are coded one after the other.
template <class T>
struct Lane {
  const uint8_t* from;
  const uint8_t* end;  // end of the value
  uint8_t* out;
  uint8_t* begin;
  size_t value;
  size_t last;
};

// Each search for a code waits for the previous search. Several lanes at once keep the processor busy.
constexpr size_t kLanes = 3;

template <class T>
class Compressor {
 public:
  Compressor(const Matcher& matcher, Bytes offsets, Bytes data, size_t n)
      : matcher_(matcher), offsets_(offsets), data_(data), num_values_(n) {
    // Before this address, a word can be loaded without leaving the data.
    safe_end_ = data.size >= 8 ? data.data + data.size - 8 : nullptr;
  }

  VariableValues run() {
    size_t bytes = offset(num_values_) - offset(0);
    if (bytes > static_cast<size_t>(std::numeric_limits<std::make_signed_t<T>>::max()) / 2) {
      throw OffsetOverflow("codes may need more bytes than their offsets can address");
    }
    VariableValues out;
    out.num_values = num_values_;
    out.offsets = Block((num_values_ + 1) * sizeof(T));
    ends_ = out.offsets.data();
    store<T>(ends_, 0);
    out.data = Block(2 * bytes + 2 * kLanes);
    std::array<Lane<T>, kLanes> lanes;
    size_t at = 0;
    for (size_t k = 0; k < kLanes; ++k) {
      size_t first = num_values_ * k / kLanes, last = num_values_ * (k + 1) / kLanes;
      uint8_t* begin = out.data.data() + at;
      lanes[k] = {nullptr, nullptr, begin, begin, first, last};
      at += 2 * (offset(last) - offset(first)) + 2;
    }
    // Local copies, which the compiler keeps in registers: the written bytes cannot alias them.
    Lane<T> a = lanes[0], b = lanes[1], c = lanes[2];
    if (enter(a) && enter(b) && enter(c)) {
      for (;;) {
        step(a);
        step(b);
        step(c);
        if ((a.from == a.end && !next(a)) || (b.from == b.end && !next(b)) || (c.from == c.end && !next(c))) {
          break;
        }
      }
    }
    lanes = {a, b, c};
    for (Lane<T>& lane : lanes) {
      while (lane.value != lane.last) {
        if (lane.from == lane.end) {
          next(lane);
        } else {
          step(lane);
        }
      }
    }
    join(lanes, out);
    return out;
  }

 private:
  size_t offset(size_t i) const { return static_cast<size_t>(load<T>(offsets_.data + i * sizeof(T))); }

  // Moves to the value of the lane, or to the next one that is not empty. Returns false if there is none.
  inline __attribute__((always_inline)) bool enter(Lane<T>& lane) const {
    for (; lane.value != lane.last; ++lane.value) {
      size_t begin = offset(lane.value), end = offset(lane.value + 1);
      if (begin != end) {
        lane.from = data_.data + begin;
        lane.end = data_.data + end;
        return true;
      }
      note_end(lane);
    }
    return false;
  }

  inline __attribute__((always_inline)) bool next(Lane<T>& lane) const {
    if (lane.end != nullptr) {
      note_end(lane);
      ++lane.value;
    }
    return enter(lane);
  }

  void note_end(const Lane<T>& lane) const {
    store(ends_ + (lane.value + 1) * sizeof(T), static_cast<T>(lane.out - lane.begin));
  }

  inline __attribute__((always_inline)) void step(Lane<T>& lane) const {
    auto left = static_cast<size_t>(lane.end - lane.from);
    uint64_t word = lane.from <= safe_end_ ? load<uint64_t>(lane.from) : load_word(lane.from, left);
    Match match = matcher_.find(word, left);
    lane.out[0] = static_cast<uint8_t>(match.code);
    lane.out[1] = static_cast<uint8_t>(word);  // overwritten unless the code is an escape
    lane.out += 1 + (match.code == kEscape);
    lane.from += match.length;
  }

  // Moves the outputs of the lanes together, and makes their offsets count from the first lane.
  void join(const std::array<Lane<T>, kLanes>& lanes, VariableValues& out) const {
    size_t total = 0;
    for (size_t k = 0; k < kLanes; ++k) {
      auto bytes = static_cast<size_t>(lanes[k].out - lanes[k].begin);
      std::memmove(out.data.data() + total, lanes[k].begin, bytes);
      for (size_t i = num_values_ * k / kLanes; total != 0 && i < lanes[k].last; ++i) {
        uint8_t* end = ends_ + (i + 1) * sizeof(T);
        store(end, static_cast<T>(load<T>(end) + total));
      }
      total += bytes;
    }
    out.data.resize(total);
  }

  const Matcher& matcher_;
  Bytes offsets_;
  Bytes data_;
  size_t num_values_;
  const uint8_t* safe_end_;
  uint8_t* ends_ = nullptr;
};

}  // namespace

Block train_symbols(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t sample_bytes) {
  std::vector<Value> sample = take_sample(offsets, data, num_values, offset_bits, sample_bytes);
  std::vector<Symbol> symbols = Trainer(sample).run();
  Block table(kTableBytes);
  uint8_t* to = table.data();
  std::memset(to, 0, kTableBytes);
  to[0] = static_cast<uint8_t>(symbols.size());
  to[3] = 1;  // codes are used
  std::memcpy(to + 4, "TSSF", 4);
  for (size_t i = 0; i < symbols.size(); ++i) {
    store(to + 8 + 8 * i, symbols[i].bytes);
    to[8 + 8 * symbols.size() + i] = static_cast<uint8_t>(symbols[i].length);
  }
  return table;
}

VariableValues compress_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  std::unique_ptr<Matcher> matcher = matcher_of(table);
  return offset_bits == 64 ? Compressor<uint64_t>(*matcher, offsets, data, num_values).run()
                           : Compressor<uint32_t>(*matcher, offsets, data, num_values).run();
}

SampleSize try_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                       size_t sample_bytes) {
  std::unique_ptr<Matcher> matcher = matcher_of(table);
  SampleSize result{0, 0};
  std::vector<uint8_t> out;
  for (const Value& value : take_sample(offsets, data, num_values, offset_bits, sample_bytes)) {
    out.resize(std::max(out.size(), 2 * value.size));
    result.coded_bytes += static_cast<size_t>(encode(*matcher, value.data, value.size, out.data()) - out.data());
    result.bytes += value.size;
  }
  return result;
}

}  // namespace lance
