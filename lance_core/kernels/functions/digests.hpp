// Digests of bytes: MD5 (RFC 1321) and the SHA-2 family (FIPS 180-4).
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class Digest { md5, sha224, sha256, sha384, sha512 };

// Returns the digests of all values, one after the other. `offsets` has num_values + 1 numbers of 64 bits.
Block digest_values(Digest digest, Bytes offsets, Bytes data, size_t num_values);

}  // namespace lance
