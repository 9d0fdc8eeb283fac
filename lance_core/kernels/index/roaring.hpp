// Sets of row keys as lists of Roaring containers, and their two forms in index files; see
// `lance_core/index/row_sets.py`.
//
// Source: https://github.com/RoaringBitmap/RoaringFormatSpec. Run containers are neither written nor read.
#pragma once

#include <deque>
#include <vector>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class SetContainer { tree_map, map64 };

// Row keys that share all but their lowest 16 bits, which `data` has as stored: up to 4096 ascending numbers of 16
// bits, or 65536 bits.
struct KeyContainer {
  uint64_t high;  // the shared bits, shifted down
  const uint8_t* data;
  uint32_t count;
  uint32_t previous;  // free for the owner
};

struct RowSets {
  Block offsets;  // i32, one more than there are sets
  Block data;
};

size_t container_bytes(size_t num_keys);

// Writes `n` ascending distinct numbers as the data of a container, to `container_bytes(n)` bytes.
void write_container(const uint16_t* numbers, size_t n, uint8_t* to);

// Memory of containers that were merged.
using MergedContainers = std::deque<std::vector<uint8_t>>;

// Brings the containers from `first` on in ascending order of their shared bits, and merges those that are equal there.
void normalize(std::vector<KeyContainer>& containers, size_t first, MergedContainers& merged);

// Size of the set with these normalized containers, as stored.
size_t set_bytes(const KeyContainer* begin, const KeyContainer* end, SetContainer form);

// Writes several sets. `ends` has the end of each set in `containers`. Throws OffsetOverflow for more than 2 GiB.
RowSets write_sets(const std::vector<KeyContainer>& containers, const std::vector<size_t>& ends, SetContainer form);

// Reads a stored set, and adds its containers, which point to `data`.
void read_set(Bytes data, SetContainer form, std::vector<KeyContainer>& containers);

// Unites groups of consecutive stored sets. `ends` (i64) has the end of each group, `offsets` (i32) the places of the
// sets in `data`.
RowSets unite_sets(Bytes ends, Bytes offsets, Bytes data, SetContainer form);

}  // namespace lance
