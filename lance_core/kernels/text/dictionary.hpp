// Dictionaries of terms: the map format of the Rust crate `fst`, and searches in sorted terms.
//
// A map is a graph of nodes from a root. Each step has a byte of the key and an output, and the sum of the outputs is
// the value of the key. A node lies below the nodes that lead to it. Source: docs/format.md, "Index files".
#pragma once

#include <optional>

#include "base/variable.hpp"

namespace lance {

// Returns the value of a key, if the map has it.
std::optional<uint64_t> find_key(Bytes map, Bytes key);

// All keys of a map in the order of their bytes.
struct MapEntries {
  VariableValues keys;  // 64-bit offsets
  Block values;         // u32
};
// Fails if the keys have more than `max_bytes` bytes together.
MapEntries expand_map(Bytes map, size_t max_bytes);

// Returns a map of keys that ascend, between 64-bit offsets, with their u32 values.
Block build_map(Bytes offsets, Bytes data, Bytes values);

// Returns the numbers of at most `limit` sorted terms, the first ones, that start with the first `prefix_bytes` bytes
// of `term` and become `term` by at most `distance` insertions, deletions or replacements of characters.
std::vector<uint32_t> similar_terms(Bytes offsets, Bytes data, Bytes term, size_t distance, size_t prefix_bytes,
                                    size_t limit);

}  // namespace lance
