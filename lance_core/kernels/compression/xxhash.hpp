// XXH64, the hash that may end a Zstandard frame.
#pragma once

#include "base/common.hpp"

namespace lance {

// Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; the seed is 0.
uint64_t xxhash64(Bytes bytes);

}  // namespace lance
