// FSST: strings as one-byte codes for symbols of up to eight bytes (docs/format.md, "FSST").
#pragma once

#include "base/variable.hpp"

namespace lance {

struct ExpandWay;  // fsst_ways.hpp

// A parsed symbol table of a page. If `codes` is false, the page stores plain text.
struct SymbolTable {
  bool codes = false;
  size_t num_symbols = 0;
  uint64_t symbol[256] = {};
  uint8_t length[256] = {};
  const ExpandWay* way = nullptr;  // the fastest implementation that this processor supports
};

SymbolTable parse_symbol_table(Bytes table);

// Expands chunks in mini-block form: offsets and codes.
VariableValues expand_symbols(const SymbolTable& table, const Stream& stream, const Counts& counts,
                              unsigned offset_bits);

// Expands the chunks of several pages. Each page has a table of its own, and `num_chunks` of the chunks.
VariableValues expand_symbols(const std::vector<const SymbolTable*>& tables, const std::vector<int64_t>& num_chunks,
                              const Stream& stream, const Counts& counts, unsigned offset_bits);

// Expands codes with Arrow offsets (full-zip pages).
VariableValues expand_symbols(const SymbolTable& table, Bytes offsets, Bytes data, size_t num_values,
                              unsigned offset_bits);

// Returns the number of bytes that the codes of a value expand to; SIZE_MAX if a code is invalid or an escape is last.
size_t expanded_size(const SymbolTable& table, Bytes codes);
// Writes the expanded bytes, and up to kSlack bytes after them. Returns the end of the expanded bytes.
constexpr size_t kSlack = 64;  // every symbol is stored as eight bytes, whatever its length
uint8_t* expand_value(const SymbolTable& table, Bytes codes, uint8_t* out);

}  // namespace lance
