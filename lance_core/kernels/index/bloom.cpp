#include "index/bloom.hpp"

#include "base/variable.hpp"
#include "compression/xxhash.hpp"

namespace lance {
namespace {

constexpr size_t kBlockBytes = 32;
constexpr uint32_t kSalts[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};

void insert(uint8_t* filter, size_t num_blocks, uint64_t hash) {
  uint8_t* block = filter + kBlockBytes * (((hash >> 32) * num_blocks) >> 32);
  auto low = static_cast<uint32_t>(hash);
  for (size_t i = 0; i < 8; ++i) {
    uint8_t* word = block + 4 * i;
    store(word, load<uint32_t>(word) | uint32_t{1} << ((low * kSalts[i]) >> 27));
  }
}

}  // namespace

Block bloom_filter(const HashedValues& values, size_t num_blocks) {
  size_t end = values.start + values.num_values;
  if (num_blocks == 0 || num_blocks > UINT32_MAX) corrupt("a filter of %zu blocks", num_blocks);
  if (values.offset_bits != 0) {
    check_offsets(values.offsets, end, values.data.size, values.offset_bits);
  } else {
    values.data.slice(0, end * values.width);
  }
  Block filter(kBlockBytes * num_blocks);
  std::memset(filter.data(), 0, filter.size());
  OffsetReader offsets(values.offsets.data, values.offset_bits);
  for (size_t i = values.start; i < end; ++i) {
    if (!values.validity[i]) continue;
    Bytes value = values.offset_bits == 0
                      ? Bytes{values.data.data + i * values.width, values.width}
                      : Bytes{values.data.data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
    insert(filter.data(), num_blocks, xxhash64(value));
  }
  return filter;
}

}  // namespace lance
