#include "codecs/byte_stream_split.hpp"

namespace lance {
namespace {

template <class T>
inline __attribute__((always_inline)) void join_chunk(const uint8_t* from, size_t n, T* out) {
  for (size_t i = 0; i < n; ++i) {
    T value = 0;
    for (size_t byte = 0; byte < sizeof(T); ++byte) {
      value |= static_cast<T>(from[byte * n + i]) << (8 * byte);
    }
    out[i] = value;
  }
}

LANCE_MULTIVERSION void join32(const uint8_t* from, size_t n, uint32_t* out) { join_chunk(from, n, out); }
LANCE_MULTIVERSION void join64(const uint8_t* from, size_t n, uint64_t* out) { join_chunk(from, n, out); }

}  // namespace

Block join_byte_streams(const Stream& stream, const Counts& counts, size_t width) {
  require_same_chunks(stream, counts);
  if (width != 4 && width != 8) {
    corrupt("byte stream split of values of %zu bytes", width);
  }
  for (size_t i = 0; i < stream.size(); ++i) {
    if (static_cast<unsigned __int128>(counts.values[i]) * width != static_cast<size_t>(stream.length[i])) {
      corrupt("chunk %zu has %lld bytes for %lld split values of %zu bytes", i,
              static_cast<long long>(stream.length[i]), static_cast<long long>(counts.values[i]), width);
    }
  }
  Block out(static_cast<size_t>(counts.total) * width);
  uint8_t* to = out.data();
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    if (width == 4) {
      join32(stream.chunk(i).data, n, reinterpret_cast<uint32_t*>(to));
    } else {
      join64(stream.chunk(i).data, n, reinterpret_cast<uint64_t*>(to));
    }
    to += n * width;
  }
  return out;
}

}  // namespace lance
