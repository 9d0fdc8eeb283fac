#include "compression/inflate.hpp"

#include "base/copies.hpp"
#include "compression/lz4.hpp"
#include "compression/zstd.hpp"

namespace lance {
namespace {

// Largest number of bytes that one compressed byte can become. A larger size is refused before memory is allocated.
constexpr size_t kLz4MaxRatio = 256, kZstdMaxRatio = 33'000;

// The compressed bytes of a chunk, and their decompressed size.
struct Claim {
  Bytes packed;
  size_t size;
};

Claim read_lz4_claim(Bytes chunk, size_t index) {
  if (chunk.size < 4) {
    corrupt("chunk %zu of %zu bytes has no LZ4 size", index, chunk.size);
  }
  return {chunk.slice(4, chunk.size - 4), load<uint32_t>(chunk.data)};
}

// The size is before the frame. A block that begins with a frame has no such size.
Claim read_zstd_claim(Bytes chunk, size_t index) {
  constexpr uint32_t kMagic = 0xFD2FB528;
  bool is_bare = chunk.size < 8 || (load<uint32_t>(chunk.data) == kMagic && (chunk.data[4] & 0x10) == 0);
  Bytes frame = is_bare ? chunk : chunk.slice(8, chunk.size - 8);
  std::optional<uint64_t> content = zstd_content_size(frame);
  if (is_bare && !content) {
    corrupt("chunk %zu is a ZSTD frame without a size", index);
  }
  uint64_t size = is_bare ? *content : load<uint64_t>(chunk.data);
  if (content && *content != size) {
    corrupt("chunk %zu is a ZSTD frame of %llu bytes under a prefix of %llu", index,
            static_cast<unsigned long long>(*content), static_cast<unsigned long long>(size));
  }
  return {frame, static_cast<size_t>(size)};
}

std::vector<Claim> read_claims(const Stream& chunks, Compressor compressor) {
  std::vector<Claim> claims;
  claims.reserve(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    Bytes chunk = chunks.chunk(i);
    if (chunk.size == 0) {
      claims.push_back({chunk, 0});
      continue;
    }
    Claim claim = compressor == Compressor::lz4 ? read_lz4_claim(chunk, i) : read_zstd_claim(chunk, i);
    size_t most = claim.packed.size * (compressor == Compressor::lz4 ? kLz4MaxRatio : kZstdMaxRatio);
    if (claim.size > most) {
      corrupt("chunk %zu of %zu compressed bytes claims %zu", i, claim.packed.size, claim.size);
    }
    claims.push_back(claim);
  }
  return claims;
}

size_t total_size(const std::vector<Claim>& claims) {
  constexpr size_t kMost = size_t{1} << 46;
  size_t total = 0;
  for (const Claim& claim : claims) {
    if (claim.size > kMost - total) {
      corrupt("%zu compressed chunks of more bytes than there is memory", claims.size());
    }
    total += claim.size;
  }
  return total;
}

// Decompresses all chunks one after the other. The bytes that a chunk writes after its end are overwritten by the next.
void inflate_all(const std::vector<Claim>& claims, Compressor compressor, uint8_t* to) {
  std::optional<ZstdInflater> zstd;
  for (const Claim& claim : claims) {
    if (claim.packed.size == 0) {
      if (claim.size != 0) {
        corrupt("no compressed bytes for %zu", claim.size);
      }
      continue;
    }
    if (compressor == Compressor::lz4) {
      inflate_lz4(claim.packed, to, claim.size);
    } else {
      if (!zstd) {
        zstd.emplace();
      }
      zstd->inflate(claim.packed, to, claim.size);
    }
    to += claim.size;
  }
}

// Decompresses all chunks to `out`.
Stream inflate_claims(const std::vector<Claim>& claims, size_t total, Compressor compressor, Block& out) {
  if (out.capacity() < total + kCopySlack) {
    out = Block(total + kCopySlack);
  }
  out.resize(total);
  inflate_all(claims, compressor, out.data());
  Stream inflated;
  inflated.base = {out.data(), total};
  size_t at = 0;
  for (const Claim& claim : claims) {
    inflated.append(at, claim.size);
    at += claim.size;
  }
  return inflated;
}

}  // namespace

Stream inflate(const Stream& chunks, Compressor compressor, Block& out) {
  if (compressor == Compressor::none) {
    return chunks;
  }
  std::vector<Claim> claims = read_claims(chunks, compressor);
  return inflate_claims(claims, total_size(claims), compressor, out);
}

VariableValues inflate_values(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                              Compressor compressor) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  OffsetReader ends(offsets.data, offset_bits);
  Stream values;
  values.base = data;
  for (size_t i = 0; i < num_values; ++i) {
    values.append(ends[i], ends[i + 1] - ends[i]);
  }
  std::vector<Claim> claims = read_claims(values, compressor);
  size_t total = total_size(claims), width = offset_bytes(offset_bits), at = 0;
  if (offset_bits == 32 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  VariableValues result;
  result.num_values = num_values;
  inflate_claims(claims, total, compressor, result.data);
  result.offsets = Block((num_values + 1) * width);
  for (size_t i = 0; i <= num_values; ++i) {
    if (width == 4) {
      store(result.offsets.data() + 4 * i, static_cast<uint32_t>(at));
    } else {
      store(result.offsets.data() + 8 * i, static_cast<uint64_t>(at));
    }
    at += i < num_values ? claims[i].size : 0;
  }
  return result;
}

}  // namespace lance
