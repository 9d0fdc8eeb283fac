// How the codes of many values are expanded at once, by what the processor has for it.
#pragma once

#include <span>
#include <string_view>

#include "fsst.hpp"

namespace lance {

constexpr uint8_t kEscape = 255;
// So many codes are expanded at once. They make at most 64 bytes, so that places among these fit into a byte.
constexpr size_t kCodes = 8;
// The place of a byte behind an escape, where no value can end.
constexpr uint8_t kInside = 255;

// Where the bytes of eight codes begin.
struct Places {
  uint64_t begin;               // of the first
  uint8_t after_begin[kCodes];  // of each
};

// Expands codes to `out`, which has room for what they make and the slack, whatever values they belong to: no branch
// depends on where these end. `places` gets one entry for each eight codes and one for the end, which is no code.
// Returns the end of the output, or nullptr when an escape has nothing behind it.
struct ExpandWay {
  const char* name;
  uint8_t* (*expand)(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out, Places* places);
};

// The ways that this processor has, the fastest first. The last one needs nothing.
std::span<const ExpandWay> expand_ways();
// One of them by its name; std::invalid_argument for another.
const ExpandWay& expand_way(std::string_view name);

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LANCE_FSST_WIDE
bool can_expand_wide();
uint8_t* expand_wide(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out, Places* places);
#endif

// The portable way over what is left behind `begin`, where the output of all codes began; `escaped` when the first
// code is what stands behind an escape.
uint8_t* expand_rest(const SymbolTable& table, const uint8_t* code, const uint8_t* end, const uint8_t* begin,
                     uint8_t* out, bool escaped, Places* places);

// Up to eight codes, among which escapes may be.
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

// Eight places, each the sum of the lengths before it: byte k of the product is the sum of lengths 0 to k.
inline void store_places(Places& places, uint64_t lengths) {
  store(places.after_begin, (lengths * 0x0101010101010101u) << 8);
}

}  // namespace lance
