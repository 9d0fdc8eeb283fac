// Implementations that expand the codes of many values at once, for several kinds of processors.
#pragma once

#include <span>
#include <string_view>

#include "codecs/fsst.hpp"

namespace lance {

constexpr uint8_t kEscape = 255;
// Number of codes that are expanded at once. They expand to at most 64 bytes, so that a position fits into a byte.
constexpr size_t kCodes = 8;
// Marks the position of a byte after an escape, where no value can end.
constexpr uint8_t kInside = 255;

// Positions of the expanded bytes of eight codes.
struct Places {
  uint64_t begin;               // of the first code
  uint8_t after_begin[kCodes];  // of each code, relative to `begin`
};

// Expands codes to `out`, which has room for the expanded bytes and the slack. No branch depends on the ends of values.
// `places` gets one entry for every eight codes and one for the end. Returns the end of the output, or nullptr if no
// byte follows an escape.
struct ExpandWay {
  const char* name;
  uint8_t* (*expand)(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out, Places* places);
};

// The implementations that this processor supports, fastest first. The last one runs everywhere.
std::span<const ExpandWay> expand_ways();
// Returns an implementation by its name. Throws std::invalid_argument for other names.
const ExpandWay& expand_way(std::string_view name);

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LANCE_FSST_WIDE
bool can_expand_wide();
uint8_t* expand_wide(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out, Places* places);
#endif

// Expands the remaining codes with the portable implementation. `begin` is the start of the output of all codes.
// `escaped` means that the first code is the byte after an escape.
uint8_t* expand_rest(const SymbolTable& table, const uint8_t* code, const uint8_t* end, const uint8_t* begin,
                     uint8_t* out, bool escaped, Places* places);

// Expands up to eight codes, which may contain escapes.
inline uint8_t* expand_escaped(const SymbolTable& table, const uint8_t* code, size_t n, uint8_t* out, bool& escaped,
                               Places& places) {
  const uint8_t* begin = out;
  for (size_t i = 0; i < n; ++i) {
    places.after_begin[i] = escaped ? kInside : static_cast<uint8_t>(out - begin);
    if (escaped) {
      *out++ = code[i];
      escaped = false;
    } else if (code[i] == kEscape) {
      escaped = true;
    } else {
      store(out, table.symbol[code[i]]);
      out += table.length[code[i]];
    }
  }
  return out;
}

// Stores eight positions, each the sum of the lengths before it: byte k of the product is the sum of lengths 0 to k.
inline void store_places(Places& places, uint64_t lengths) {
  store(places.after_begin, (lengths * 0x0101010101010101u) << 8);
}

}  // namespace lance
