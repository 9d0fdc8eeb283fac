// Sets of row keys in the two containers of index files; see `lance_core/index/row_sets.py`.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class SetContainer { tree_map, map64 };

struct RowSets {
  Block offsets;  // i32, one more than there are sets
  Block data;
};

// Serializes sets. `ends` (i64) has the end of each set in `keys` (u64). Keys of a set may be in any order and repeat.
RowSets write_row_sets(Bytes ends, Bytes keys, SetContainer container);

}  // namespace lance
