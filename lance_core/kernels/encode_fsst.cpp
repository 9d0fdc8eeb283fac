#include "encode_fsst.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <unordered_map>

#include "fsst.hpp"

namespace lance {
namespace {

constexpr size_t kTableBytes = 2312;
constexpr size_t kMaxSymbols = 255;
constexpr unsigned kEscape = 255;
constexpr int kGenerations = 5;
constexpr size_t kSlots = 4096;  // of symbols of three bytes and more, by a hash of their first three

struct Symbol {
  uint64_t bytes;  // first byte lowest, the rest zero
  unsigned length;

  bool operator==(const Symbol& other) const { return bytes == other.bytes && length == other.length; }
};

struct SymbolHash {
  size_t operator()(const Symbol& symbol) const {
    return static_cast<size_t>((symbol.bytes ^ symbol.length) * 0x9e3779b97f4a7c15u >> 17);
  }
};

inline uint64_t low_bytes(uint64_t word, size_t n) { return n >= 8 ? word : word & ((uint64_t{1} << (8 * n)) - 1); }
inline size_t slot_of(uint64_t word) { return static_cast<size_t>((word & 0xffffff) * 0x9e3779b1u >> 15) % kSlots; }

// Finds the longest symbol at a position. Of symbols of three bytes and more that share a slot only the first one added
// is found, so they are added by what they gain.
class Matcher {
 public:
  Matcher() {
    slots_.fill({0, 0, 0});
    for (size_t i = 0; i < 65536; ++i) {
      pairs_[i] = kEscape | 1u << 8;
    }
  }

  // Whether the symbol will be found.
  bool add(const Symbol& symbol, unsigned code) {
    if (symbol.length >= 3) {
      Slot& slot = slots_[slot_of(symbol.bytes)];
      if (slot.length != 0) {
        return false;
      }
      slot = {symbol.bytes, static_cast<uint16_t>(code), static_cast<uint16_t>(symbol.length)};
    } else if (symbol.length == 2) {
      pairs_[symbol.bytes] = static_cast<uint16_t>(code | 2u << 8);
    } else {
      for (size_t second = 0; second < 256; ++second) {
        uint16_t& entry = pairs_[symbol.bytes | second << 8];
        if (entry >> 8 != 2) {
          entry = static_cast<uint16_t>(code | 1u << 8);
        }
      }
    }
    return true;
  }

  struct Match {
    unsigned code;  // kEscape: none
    size_t length;
  };

  // `word` holds the next `left` bytes, and zeros behind them.
  Match find(uint64_t word, size_t left) const {
    const Slot& slot = slots_[slot_of(word)];
    if (slot.length != 0 && slot.length <= left && low_bytes(word, slot.length) == slot.bytes) {
      return {slot.code, slot.length};
    }
    uint16_t entry = pairs_[word & 0xffff];
    if (left == 1 && entry >> 8 == 2) {
      return {single_code(static_cast<uint8_t>(word)), 1};
    }
    return {entry & 0xffu, entry >> 8 & 0xffu};
  }

 private:
  // The last byte of a value, where a pair begins that is not there.
  unsigned single_code(uint8_t byte) const {
    for (size_t second = 0; second < 256; ++second) {
      uint16_t entry = pairs_[byte | second << 8];
      if (entry >> 8 == 1) {
        return entry & 0xff;
      }
    }
    return kEscape;
  }

  struct Slot {
    uint64_t bytes;
    uint16_t code;
    uint16_t length;
  };
  std::array<Slot, kSlots> slots_;
  std::array<uint16_t, 65536> pairs_;  // code, and length << 8
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

// Whole values, evenly spread, long ones cut; together about `sample_bytes`.
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

// One round: codes the sample with the symbols so far and proposes those symbols, and pairs of them, that gained most.
// Bytes without a symbol count as symbols of their own.
class Trainer {
 public:
  explicit Trainer(const std::vector<Value>& sample) : sample_(sample) {}

  std::vector<Symbol> run() {
    std::vector<Symbol> symbols;
    for (int generation = 0; generation < kGenerations; ++generation) {
      symbols = next(symbols);
    }
    return symbols;
  }

 private:
  static constexpr size_t kCodes = 512;  // symbols, then the single bytes

  std::vector<Symbol> next(const std::vector<Symbol>& symbols) {
    auto matcher = std::make_unique<Matcher>();
    for (size_t i = 0; i < symbols.size(); ++i) {
      matcher->add(symbols[i], static_cast<unsigned>(i));
    }
    std::fill(single_.begin(), single_.end(), 0u);
    pair_.clear();
    for (const Value& value : sample_) {
      size_t previous = kCodes;
      for (size_t at = 0; at < value.size;) {
        size_t left = value.size - at;
        uint64_t word = load_word(value.data + at, left);
        Matcher::Match match = matcher->find(word, left);
        size_t code = match.code == kEscape ? 256 + (word & 0xff) : match.code;
        ++single_[code];
        if (match.length > 1) {  // a symbol that is too long should be able to shrink again
          ++single_[256 + (word & 0xff)];
        }
        if (previous != kCodes) {
          ++pair_[previous << 16 | code];
        }
        previous = code;
        at += match.length;
      }
    }
    return best(symbols);
  }

  static Symbol symbol_of(const std::vector<Symbol>& symbols, size_t code) {
    return code < 256 ? symbols[code] : Symbol{code - 256, 1};
  }

  std::vector<Symbol> best(const std::vector<Symbol>& symbols) const {
    std::unordered_map<Symbol, uint64_t, SymbolHash> gains;
    for (size_t code = 0; code < kCodes; ++code) {
      if (single_[code] != 0) {
        Symbol symbol = symbol_of(symbols, code);
        // A byte without a symbol takes two: that one is worth more than its length.
        gains[symbol] += uint64_t{single_[code]} * (symbol.length == 1 ? 8 : symbol.length);
      }
    }
    for (auto [codes, count] : pair_) {
      if (count < 2) {
        continue;
      }
      Symbol first = symbol_of(symbols, codes >> 16), second = symbol_of(symbols, codes & 0xffff);
      if (first.length == 8) {
        continue;
      }
      unsigned length = std::min(8u, first.length + second.length);
      Symbol joined{low_bytes(first.bytes | second.bytes << (8 * first.length), length), length};
      gains[joined] += uint64_t{count} * length;
    }
    std::vector<std::pair<uint64_t, Symbol>> ordered;
    ordered.reserve(gains.size());
    for (const auto& [symbol, gain] : gains) {
      ordered.emplace_back(gain, symbol);
    }
    // Equal gains in a fixed order, so that the same values give the same bytes.
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
      return a.first != b.first                   ? a.first > b.first
             : a.second.length != b.second.length ? a.second.length > b.second.length
                                                  : a.second.bytes < b.second.bytes;
    });
    auto matcher = std::make_unique<Matcher>();
    std::vector<Symbol> chosen;
    for (const auto& [gain, symbol] : ordered) {
      if (chosen.size() == kMaxSymbols) {
        break;
      }
      if (matcher->add(symbol, static_cast<unsigned>(chosen.size()))) {
        chosen.push_back(symbol);
      }
    }
    return chosen;
  }

  const std::vector<Value>& sample_;
  std::array<uint32_t, kCodes> single_{};
  std::unordered_map<uint64_t, uint32_t> pair_;
};

std::unique_ptr<Matcher> matcher_of(Bytes table) {
  SymbolTable parsed = parse_symbol_table(table);
  if (!parsed.codes) {
    corrupt("a symbol table without codes");
  }
  auto matcher = std::make_unique<Matcher>();
  for (unsigned i = 0; i < parsed.num_symbols; ++i) {
    matcher->add({low_bytes(parsed.symbol[i], parsed.length[i]), parsed.length[i]}, i);
  }
  return matcher;
}

// Codes of one value; `out` has room for two bytes per byte.
inline uint8_t* encode(const Matcher& matcher, const uint8_t* from, size_t size, uint8_t* out) {
  const uint8_t* end = from + size;
  while (from < end) {
    auto left = static_cast<size_t>(end - from);
    uint64_t word = load_word(from, left);
    Matcher::Match match = matcher.find(word, left);
    *out++ = static_cast<uint8_t>(match.code);
    if (match.code == kEscape) {
      *out++ = static_cast<uint8_t>(word);
    }
    from += match.length;
  }
  return out;
}

template <class T>
VariableValues compress(const Matcher& matcher, Bytes offsets, Bytes data, size_t n) {
  auto offset = [&](size_t i) { return static_cast<size_t>(load<T>(offsets.data + i * sizeof(T))); };
  size_t bytes = offset(n) - offset(0);
  if (bytes > static_cast<size_t>(std::numeric_limits<std::make_signed_t<T>>::max()) / 2) {
    throw OffsetOverflow("more bytes than their codes could be addressed for");
  }
  VariableValues out;
  out.num_values = n;
  out.offsets = Block((n + 1) * sizeof(T));
  out.data = Block(2 * bytes);
  uint8_t* to = out.data.data();
  store<T>(out.offsets.data(), 0);
  for (size_t i = 0; i < n; ++i) {
    size_t begin = offset(i);
    to = encode(matcher, data.data + begin, offset(i + 1) - begin, to);
    store(out.offsets.data() + (i + 1) * sizeof(T), static_cast<T>(to - out.data.data()));
  }
  out.data.resize(static_cast<size_t>(to - out.data.data()));
  return out;
}

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
  return offset_bits == 64 ? compress<uint64_t>(*matcher, offsets, data, num_values)
                           : compress<uint32_t>(*matcher, offsets, data, num_values);
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
