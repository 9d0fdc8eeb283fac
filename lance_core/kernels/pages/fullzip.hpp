// The full-zip layout: level entries one after the other, each with its control word and value
// (docs/format.md, "Full-zip pages").
#pragma once

#include "base/variable.hpp"

namespace lance {

struct ControlWord {
  unsigned rep_bits;
  unsigned def_bits;
  uint16_t max_visible;  // an entry has a value slot if def <= max_visible

  size_t bytes() const {
    unsigned bits = rep_bits + def_bits;
    return bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  }
};

struct ZippedLevels {
  Block rep;  // u16; empty without repetition levels
  Block def;  // u16; empty without definition levels
  size_t num_entries = 0;
};

struct ZippedFixed {
  ZippedLevels levels;
  Block values;  // `width` bytes per visible entry
  size_t num_values = 0;
};

struct ZippedVariable {
  ZippedLevels levels;
  VariableValues values;  // values of visible entries; a null is empty
};

ZippedFixed unzip_fixed(Bytes data, ControlWord control, size_t width);
ZippedVariable unzip_variable(Bytes data, ControlWord control, unsigned length_bits);

}  // namespace lance
