#include "encode/runs.hpp"

#include <algorithm>

namespace lance {
namespace {

template <class T>
RunChunks encode(Bytes values, size_t chunk_values, size_t chunk_bytes) {
  size_t n = values.size / sizeof(T);
  RunChunks out;
  std::vector<int64_t> counts;
  size_t runs = 0;
  for (size_t at = 0; at < n;) {
    size_t count = chunk_values;
    size_t left = n - at;
    size_t found;
    for (;;) {
      size_t taken = std::min(count, left);
      found = count_runs<T>(values.data + at * sizeof(T), taken);
      if (found * (sizeof(T) + 1) <= chunk_bytes || count <= 2) {
        count = taken;
        break;
      }
      count /= 2;
    }
    counts.push_back(static_cast<int64_t>(count));
    out.num_runs.push_back(static_cast<int64_t>(found));
    runs += found;
    at += count;
  }
  out.counts = Counts(std::move(counts));
  out.values = Block(runs * sizeof(T));
  out.lengths = Block(runs);
  uint8_t* to_values = out.values.data();
  uint8_t* to_lengths = out.lengths.data();
  const uint8_t* from = values.data;
  for (size_t i = 0; i < out.num_runs.size(); ++i) {
    auto count = static_cast<size_t>(out.counts.values[i]);
    write_runs<T>(from, count, to_values, to_lengths);
    from += count * sizeof(T);
    to_values += static_cast<size_t>(out.num_runs[i]) * sizeof(T);
    to_lengths += out.num_runs[i];
  }
  return out;
}

}  // namespace

template <class T>
size_t count_runs(const uint8_t* values, size_t n) {
  size_t runs = 0;
  for (size_t begin = 0; begin < n; ++runs) {
    T value = load<T>(values + begin * sizeof(T));
    size_t end = begin + 1;
    size_t limit = std::min(n, begin + kLongestRun);
    while (end < limit && load<T>(values + end * sizeof(T)) == value) {
      ++end;
    }
    begin = end;
  }
  return runs;
}

template <class T>
void write_runs(const uint8_t* values, size_t n, uint8_t* run_values, uint8_t* run_lengths) {
  for (size_t begin = 0; begin < n;) {
    T value = load<T>(values + begin * sizeof(T));
    size_t end = begin + 1;
    size_t limit = std::min(n, begin + kLongestRun);
    while (end < limit && load<T>(values + end * sizeof(T)) == value) {
      ++end;
    }
    store(run_values, value);
    run_values += sizeof(T);
    *run_lengths++ = static_cast<uint8_t>(end - begin);
    begin = end;
  }
}

RunChunks encode_runs(Bytes values, unsigned word_bits, size_t chunk_values, size_t chunk_bytes) {
  if (chunk_values < 2 || (chunk_values & (chunk_values - 1)) != 0) {
    corrupt("chunks of %zu values", chunk_values);
  }
  switch (word_bits) {
    case 8:
      return encode<uint8_t>(values, chunk_values, chunk_bytes);
    case 16:
      return encode<uint16_t>(values, chunk_values, chunk_bytes);
    case 32:
      return encode<uint32_t>(values, chunk_values, chunk_bytes);
    case 64:
      return encode<uint64_t>(values, chunk_values, chunk_bytes);
    default:
      corrupt("run lengths of words of %u bits", word_bits);
  }
}

template size_t count_runs<uint16_t>(const uint8_t*, size_t);
template void write_runs<uint16_t>(const uint8_t*, size_t, uint8_t*, uint8_t*);

}  // namespace lance
