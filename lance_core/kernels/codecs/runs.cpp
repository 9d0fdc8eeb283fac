#include "codecs/runs.hpp"

#include <algorithm>

namespace lance {
namespace {

void require_same_runs(Bytes values, Bytes lengths, size_t width, size_t index) {
  if (values.size != lengths.size * width) {
    corrupt("chunk %zu has %zu bytes of run values for %zu runs", index, values.size, lengths.size);
  }
}

}  // namespace

template <class T>
void expand_runs_chunk(Bytes values, Bytes lengths, size_t n, T* out, size_t index) {
  require_same_runs(values, lengths, sizeof(T), index);
  size_t done = 0;
  size_t run = 0;
  for (; run < lengths.size && done < n; ++run) {
    size_t length = lengths.data[run];
    if (length == 0) {
      corrupt("chunk %zu: run %zu is empty", index, run);
    }
    // Older writers let the last run extend beyond its chunk.
    length = std::min(length, n - done);
    std::fill_n(out + done, length, load<T>(values.data + run * sizeof(T)));
    done += length;
  }
  if (done != n || run != lengths.size) {
    corrupt("chunk %zu: %zu of %zu runs add up to %zu of %zu values", index, run, lengths.size, done, n);
  }
}

void split_runs_chunk(Bytes block, size_t n, Bytes& values, Bytes& lengths, size_t index) {
  if (block.size < 8) {
    corrupt("chunk %zu: a run-length block of %zu bytes", index, block.size);
  }
  auto size = load<uint64_t>(block.data);
  if (size > block.size - 8) {
    corrupt("chunk %zu: %llu bytes of run values in a block of %zu", index, static_cast<unsigned long long>(size),
            block.size);
  }
  values = {block.data + 8, static_cast<size_t>(size)};
  lengths = {block.data + 8 + size, block.size - 8 - static_cast<size_t>(size)};
  size_t total = 0;
  for (size_t i = 0; i < lengths.size; ++i) {
    total += lengths.data[i];
  }
  if (total != n) {
    corrupt("chunk %zu: runs of %zu values in a block of %zu", index, total, n);
  }
}

namespace {

template <class T>
Block expand_chunks(const Stream& values, const Stream& lengths, const Counts& counts) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    // Checked before a wrong count becomes an allocation.
    if (counts.values[i] / 255 > lengths.length[i]) {
      corrupt("chunk %zu has %lld runs for %lld values", i, static_cast<long long>(lengths.length[i]),
              static_cast<long long>(counts.values[i]));
    }
    require_same_runs(values.chunk(i), lengths.chunk(i), sizeof(T), i);
  }
  Block out(static_cast<size_t>(counts.total) * sizeof(T));
  T* to = reinterpret_cast<T*>(out.data());
  for (size_t i = 0; i < values.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    expand_runs_chunk(values.chunk(i), lengths.chunk(i), n, to, i);
    to += n;
  }
  return out;
}

}  // namespace

Block expand_runs(const Stream& values, const Stream& lengths, const Counts& counts, unsigned word_bits) {
  require_same_chunks(values, counts);
  require_same_chunks(lengths, counts);
  switch (word_bits) {
    case 8:
      return expand_chunks<uint8_t>(values, lengths, counts);
    case 16:
      return expand_chunks<uint16_t>(values, lengths, counts);
    case 32:
      return expand_chunks<uint32_t>(values, lengths, counts);
    case 64:
      return expand_chunks<uint64_t>(values, lengths, counts);
    default:
      corrupt("runs of values of %u bits", word_bits);
  }
}

void split_runs(const Stream& blocks, const Counts& counts, Stream& values, Stream& lengths) {
  require_same_chunks(blocks, counts);
  values.base = lengths.base = blocks.base;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Bytes value_part, length_part;
    split_runs_chunk(blocks.chunk(i), static_cast<size_t>(counts.values[i]), value_part, length_part, i);
    values.append(static_cast<size_t>(value_part.data - blocks.base.data), value_part.size);
    lengths.append(static_cast<size_t>(length_part.data - blocks.base.data), length_part.size);
  }
}

template void expand_runs_chunk<uint16_t>(Bytes, Bytes, size_t, uint16_t*, size_t);

}  // namespace lance
