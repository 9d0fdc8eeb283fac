#include "codecs/fsst.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "codecs/fsst_ways.hpp"

namespace lance {
namespace {

// Expands codes to `out`, which has room for 8 bytes per code and the slack. Returns the end of the output, or nullptr
// if no byte follows an escape.
inline uint8_t* expand(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out) {
  while (code < end) {
    while (end - code >= 4) {
      auto four = load<uint32_t>(code);
      // Tests whether a byte is 255: the classic zero-byte test on the complement.
      uint32_t inverted = ~four;
      if (((inverted - 0x01010101u) & ~inverted & 0x80808080u) != 0) {
        break;
      }
      for (int i = 0; i < 4; ++i) {
        auto one = static_cast<uint8_t>(four >> (8 * i));
        store(out, table.symbol[one]);
        out += table.length[one];
      }
      code += 4;
    }
    // Expands up to and including the escape that stopped the fast loop, or the last few codes.
    for (int i = 0; i < 4 && code < end; ++i) {
      if (*code != kEscape) {
        store(out, table.symbol[*code]);
        out += table.length[*code];
        ++code;
        continue;
      }
      if (end - code < 2) {
        return nullptr;
      }
      *out++ = code[1];
      code += 2;
      break;
    }
  }
  return out;
}

// Values with more codes than this on average, in chunks with more codes than `kFewCodes`, are expanded one by one.
// Otherwise the positions of all their codes would take as much memory as the codes.
constexpr size_t kShortCodes = 64;
constexpr size_t kFewCodes = 64 << 10;

inline bool has_escape(uint64_t eight) {
  // The classic zero-byte test on the complement.
  uint64_t inverted = ~eight;
  return ((inverted - 0x0101010101010101u) & ~inverted & 0x8080808080808080u) != 0;
}

// Returns whether some byte is neither a symbol of the table nor an escape. (It may be the byte after an escape.)
LANCE_MULTIVERSION bool may_lack_symbols(const uint8_t* code, size_t n, uint8_t num_symbols) {
  uint8_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    found |= static_cast<uint8_t>(code[i] >= num_symbols && code[i] != kEscape);
  }
  return found != 0;
}

// Output that grows as needed. The first chunks give the expansion factor, so that there is mostly one allocation.
class Output {
 public:
  explicit Output(size_t guess) : block_(guess + kSlack) {}

  uint8_t* reserve(size_t bytes) {
    if (block_.capacity() - used_ < bytes + kSlack) {
      Block larger((used_ + bytes) + (used_ + bytes) / 4 + kSlack);
      copy_bytes(larger.data(), block_.data(), used_);
      block_ = std::move(larger);
    }
    return block_.data() + used_;
  }

  size_t room() const { return block_.capacity() - used_ - kSlack; }
  void advance(size_t bytes) { used_ += bytes; }
  size_t used() const { return used_; }

  Block finish() {
    block_.resize(used_);
    return std::move(block_);
  }

 private:
  Block block_;
  size_t used_ = 0;
};

template <class T>
void expand_values(const SymbolTable& table, const uint8_t* offsets, const uint8_t* codes, size_t n, Output& out,
                   std::vector<Places>& places, T*& to, size_t chunk) {
  size_t first = load<T>(offsets);
  size_t last = load<T>(offsets + n * sizeof(T));
  const uint8_t* begin = codes + first;
  // Counts before growing near the end of the guess. A table that is not full may lack a symbol that a code names.
  if ((last - first) * 8 > out.room() ||
      (table.num_symbols < kEscape && may_lack_symbols(begin, last - first, static_cast<uint8_t>(table.num_symbols)))) {
    size_t exact = expanded_size(table, {begin, last - first});
    if (exact == SIZE_MAX) {
      corrupt("chunk %zu has an escape or a code with nothing behind it", chunk);
    }
    out.reserve(exact);
  }
  uint8_t* start = out.reserve(0);
  uint8_t* position = start;
  size_t base = out.used();
  auto offset = [&](size_t i) { return static_cast<size_t>(load<T>(offsets + i * sizeof(T))); };
  bool ascends = true;
  for (size_t i = 0; i < n; ++i) {
    ascends &= offset(i) <= offset(i + 1);
  }
  if (!ascends) {
    corrupt("chunk %zu has offsets that decrease", chunk);
  }
  bool inside = false;  // whether a value ends inside an escape
  if (last - first <= std::max(kFewCodes, kShortCodes * n)) {
    places.resize(std::max(places.size(), (last - first) / kCodes + 1));
    position = table.way->expand(table, begin, codes + last, start, places.data());
    // Local copies of the pointers: otherwise the compiler must assume that a store changes them.
    const Places* found = places.data();
    T* ends = to;
    for (size_t i = 1; i <= n; ++i) {
      size_t code = offset(i) - first;
      uint8_t place = found[code / kCodes].after_begin[code % kCodes];
      inside |= place == kInside;
      ends[i - 1] = static_cast<T>(base + found[code / kCodes].begin + place);
    }
    to += n;
  } else {
    for (size_t i = 0; i < n && position != nullptr; ++i) {
      position = expand(table, codes + offset(i), codes + offset(i + 1), position);
      *to++ = static_cast<T>(base + static_cast<size_t>(position - start));
    }
  }
  if (position == nullptr || inside) {
    corrupt("a value of chunk %zu ends inside an escape", chunk);
  }
  out.advance(static_cast<size_t>(position - start));
  if (sizeof(T) == 4 && out.used() > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
}

// Returns the number of bytes to reserve for `coded` bytes, estimated from a sample of codes.
size_t guess_size(const SymbolTable& table, Bytes sample, size_t coded) {
  size_t expanded = expanded_size(table, sample);
  if (sample.size == 0 || expanded == SIZE_MAX) {
    return coded * 3;
  }
  double factor = static_cast<double>(expanded) / static_cast<double>(sample.size);
  return static_cast<size_t>(static_cast<double>(coded) * factor * 1.02) + 4096;
}

template <class T>
VariableValues expand_chunks(const SymbolTable& table, const Stream& stream, const Counts& counts) {
  size_t coded = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    Bytes chunk = stream.chunk(i);
    auto n = static_cast<size_t>(counts.values[i]);
    if (chunk.size / sizeof(T) < n + 1) {
      corrupt("chunk %zu has %zu bytes for %zu offsets", i, chunk.size, n + 1);
    }
    T first = load<T>(chunk.data);
    T last = load<T>(chunk.data + n * sizeof(T));
    if (first < (n + 1) * sizeof(T) || last < first || last > chunk.size) {
      corrupt("chunk %zu of %zu bytes holds codes at [%llu, %llu)", i, chunk.size,
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(last));
    }
    coded += last - first;
  }
  size_t guess = 0;
  if (stream.size() != 0) {
    size_t middle = stream.size() / 2;
    Bytes chunk = stream.chunk(middle);
    size_t first = load<T>(chunk.data);
    size_t last = load<T>(chunk.data + static_cast<size_t>(counts.values[middle]) * sizeof(T));
    guess = guess_size(table, chunk.slice(first, last - first), coded);
  }
  VariableValues result;
  result.num_values = static_cast<size_t>(counts.total);
  result.offsets = Block((result.num_values + 1) * sizeof(T));
  T* to = reinterpret_cast<T*>(result.offsets.data());
  *to++ = 0;
  Output out(guess);
  std::vector<Places> places;
  for (size_t i = 0; i < stream.size(); ++i) {
    Bytes chunk = stream.chunk(i);
    expand_values<T>(table, chunk.data, chunk.data, static_cast<size_t>(counts.values[i]), out, places, to, i);
  }
  result.data = out.finish();
  return result;
}

template <class T>
VariableValues expand_array(const SymbolTable& table, Bytes offsets, Bytes data, size_t n) {
  VariableValues result;
  result.num_values = n;
  result.offsets = Block((n + 1) * sizeof(T));
  T* to = reinterpret_cast<T*>(result.offsets.data());
  *to++ = 0;
  size_t coded = static_cast<size_t>(load<T>(offsets.data + n * sizeof(T)));
  Output out(guess_size(table, {data.data, std::min<size_t>(coded, 4096)}, coded));
  std::vector<Places> places;
  constexpr size_t kStep = 1024;
  for (size_t i = 0; i < n; i += kStep) {
    expand_values<T>(table, offsets.data + i * sizeof(T), data.data, std::min(kStep, n - i), out, places, to,
                     i / kStep);
  }
  result.data = out.finish();
  return result;
}

uint8_t* expand_portable(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out,
                         Places* places) {
  return expand_rest(table, code, end, out, out, false, places);
}

// Returns the values of several pages as the values of one.
template <class T>
VariableValues join_values(const std::vector<VariableValues>& pages) {
  VariableValues joined;
  size_t num_bytes = 0;
  for (const VariableValues& page : pages) {
    joined.num_values += page.num_values;
    num_bytes += page.data.size();
  }
  if (sizeof(T) == 4 && num_bytes > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  joined.offsets = Block((joined.num_values + 1) * sizeof(T));
  joined.data = Block(num_bytes);
  uint8_t* offsets = joined.offsets.data();
  store<T>(offsets, 0);
  size_t at = 0;
  for (const VariableValues& page : pages) {
    for (size_t i = 1; i <= page.num_values; ++i) {
      offsets += sizeof(T);
      store<T>(offsets, static_cast<T>(at + load<T>(page.offsets.data() + i * sizeof(T))));
    }
    copy_bytes(joined.data.data() + at, page.data.data(), page.data.size());
    at += page.data.size();
  }
  return joined;
}

}  // namespace

std::span<const ExpandWay> expand_ways() {
  static const std::vector<ExpandWay> ways = [] {
    std::vector<ExpandWay> found;
#if defined(LANCE_FSST_WIDE)
    if (can_expand_wide()) found.push_back({"wide", expand_wide});
#endif
    found.push_back({"portable", expand_portable});
    return found;
  }();
  return ways;
}

const ExpandWay& expand_way(std::string_view name) {
  for (const ExpandWay& each : expand_ways()) {
    if (name == each.name) return each;
  }
  throw std::invalid_argument("no way to expand symbols on this processor: " + std::string(name));
}

uint8_t* expand_rest(const SymbolTable& table, const uint8_t* code, const uint8_t* end, const uint8_t* begin,
                     uint8_t* out, bool escaped, Places* places) {
  for (; static_cast<size_t>(end - code) >= kCodes; code += kCodes, ++places) {
    places->begin = static_cast<uint64_t>(out - begin);
    // Kept in a register: the compiler must assume that stores change the codes, and would load them again.
    auto eight = load<uint64_t>(code);
    if (escaped || has_escape(eight)) [[unlikely]] {
      out = expand_escaped(table, code, kCodes, out, escaped, *places);
      continue;
    }
    // One store of eight lengths is faster than eight stores of positions.
    uint64_t lengths = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kCodes; ++i) {
      auto one = static_cast<uint8_t>(eight >> (8 * i));
      uint64_t length = table.length[one];
      store(out, table.symbol[one]);
      out += length;
      lengths |= length << (8 * i);
    }
    store_places(*places, lengths);
  }
  places->begin = static_cast<uint64_t>(out - begin);
  auto left = static_cast<size_t>(end - code);
  out = expand_escaped(table, code, left, out, escaped, *places);
  places->after_begin[left] = static_cast<uint8_t>(out - begin - places->begin);
  return escaped ? nullptr : out;
}

SymbolTable parse_symbol_table(Bytes table) {
  constexpr size_t kHeader = 8;
  constexpr std::array<uint8_t, 4> kMagic = {0x54, 0x53, 0x53, 0x46};
  if (table.size < kHeader || !std::equal(kMagic.begin(), kMagic.end(), table.data + 4)) {
    corrupt("a symbol table of %zu bytes without its mark", table.size);
  }
  SymbolTable result;
  result.way = &expand_ways().front();
  size_t symbols = table.data[0];
  result.num_symbols = symbols;
  result.codes = (table.data[3] & 1) != 0;
  if (table.size < kHeader + 9 * symbols) {
    corrupt("a symbol table of %zu bytes for %zu symbols", table.size, symbols);
  }
  for (size_t i = 0; i < symbols; ++i) {
    result.symbol[i] = load<uint64_t>(table.data + kHeader + 8 * i);
    result.length[i] = table.data[kHeader + 8 * symbols + i];
    if (result.length[i] == 0 || result.length[i] > 8) {
      corrupt("symbol %zu has %u bytes", i, result.length[i]);
    }
  }
  return result;
}

VariableValues expand_symbols(const SymbolTable& table, const Stream& stream, const Counts& counts,
                              unsigned offset_bits) {
  require_same_chunks(stream, counts);
  if (!table.codes) {
    return join_variable(stream, counts, offset_bits);
  }
  return offset_bytes(offset_bits) == 4 ? expand_chunks<uint32_t>(table, stream, counts)
                                        : expand_chunks<uint64_t>(table, stream, counts);
}

VariableValues expand_symbols(const std::vector<const SymbolTable*>& tables, const std::vector<int64_t>& num_chunks,
                              const Stream& stream, const Counts& counts, unsigned offset_bits) {
  require_same_chunks(stream, counts);
  if (tables.size() != num_chunks.size()) {
    corrupt("%zu symbol tables for %zu pages", tables.size(), num_chunks.size());
  }
  std::vector<VariableValues> pages;
  size_t first = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (num_chunks[i] < 0 || static_cast<size_t>(num_chunks[i]) > stream.size() - first) {
      corrupt("%lld chunks of a page where %zu are left", static_cast<long long>(num_chunks[i]), stream.size() - first);
    }
    size_t end = first + static_cast<size_t>(num_chunks[i]);
    Stream chunks{stream.base, {}, {}};
    std::vector<int64_t> values;
    for (; first < end; ++first) {
      chunks.append(static_cast<size_t>(stream.offset[first]), static_cast<size_t>(stream.length[first]));
      values.push_back(counts.values[first]);
    }
    pages.push_back(expand_symbols(*tables[i], chunks, Counts(std::move(values)), offset_bits));
  }
  if (first != stream.size()) {
    corrupt("%zu chunks behind those of all pages", stream.size() - first);
  }
  return offset_bytes(offset_bits) == 4 ? join_values<uint32_t>(pages) : join_values<uint64_t>(pages);
}

VariableValues expand_symbols(const SymbolTable& table, Bytes offsets, Bytes data, size_t num_values,
                              unsigned offset_bits) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  return offset_bytes(offset_bits) == 4 ? expand_array<uint32_t>(table, offsets, data, num_values)
                                        : expand_array<uint64_t>(table, offsets, data, num_values);
}

size_t expanded_size(const SymbolTable& table, Bytes codes) {
  const uint8_t* code = codes.data;
  const uint8_t* end = code + codes.size;
  size_t bytes = 0;
  while (code < end) {
    if (*code != kEscape) {
      if (*code >= table.num_symbols) {
        return SIZE_MAX;
      }
      bytes += table.length[*code++];
    } else {
      if (end - code < 2) {
        return SIZE_MAX;
      }
      ++bytes;
      code += 2;
    }
  }
  return bytes;
}

uint8_t* expand_value(const SymbolTable& table, Bytes codes, uint8_t* out) {
  return expand(table, codes.data, codes.data + codes.size, out);
}

}  // namespace lance
