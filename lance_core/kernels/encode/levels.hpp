// Repetition and definition levels, writing side: Arrow structure to levels, and levels to bytes
// (docs/format.md, "Levels").
#pragma once

#include "pages/levels.hpp"

namespace lance {

// Validity from bit `offset` of an Arrow bitmap on. Without data every bit is set.
struct Validity {
  Bytes bits;
  size_t offset = 0;

  bool absent() const { return bits.data == nullptr; }
  bool operator[](size_t i) const {
    return absent() || ((bits.data[(offset + i) >> 3] >> ((offset + i) & 7)) & 1) != 0;
  }
};

// Levels of entries. There is one entry per slot of the layer above; a list layer turns a slot into several entries.
struct Shredded {
  Block rep;  // u16; empty before the first list layer
  Block def;  // u16
  size_t num_entries = 0;
};

// Sets the definition level `null` for every invalid slot. `def` has the levels so far; empty means all zero. Entries
// with a level of at least `dead` have no slot.
Block shred_items(Bytes def, size_t num_entries, Validity validity, size_t num_slots, uint16_t null, uint16_t dead);

struct ListNumbers {
  uint16_t null;   // definition level of a null list
  uint16_t empty;  // definition level of an empty list
  uint16_t rep;    // repetition level at which this list begins
  uint16_t dead;   // entries with at least this level have no slot; 0xffff if all entries have one
};

// Shreds lists of offsets[i + 1] - offsets[i] items. Lists that are null, or below a null struct, have no items.
Shredded shred_lists(Bytes rep, Bytes def, size_t num_entries, Bytes offsets, unsigned offset_bits, size_t num_slots,
                     Validity validity, ListNumbers numbers);

// Repeats every entry `times` times: the slots of fixed-size lists of structs.
Block repeat_levels(Bytes levels, size_t times);

// Counts each of the levels 0 .. highest. Other levels are refused.
std::vector<int64_t> count_levels(Bytes levels, size_t highest);

// Counts the levels that differ from the level before them.
size_t count_changes(Bytes levels);

// Replaces every level by map[level].
Block map_levels(Bytes levels, const std::vector<int64_t>& map);

// Returns the bytes of a block of n levels; writes the block.
size_t levels_bytes(const uint8_t* levels, size_t n, LevelEncoding encoding);
void write_levels(const uint8_t* levels, size_t n, LevelEncoding encoding, uint8_t* out);

}  // namespace lance
