#include "pages/chunks.hpp"

namespace lance {
namespace {

// Reads one chunk from the front. Every step is checked against the end of the chunk.
class Cursor {
 public:
  Cursor(Bytes data, size_t begin, size_t end, size_t chunk)
      : data_(data), position_(begin), begin_(begin), end_(end), chunk_(chunk) {}

  template <class T>
  size_t read() {
    if (end_ - position_ < sizeof(T)) {
      corrupt("chunk %zu of %zu bytes ends inside its header", chunk_, end_ - begin_);
    }
    T value = load<T>(data_.data + position_);
    position_ += sizeof(T);
    return value;
  }

  void pad() { position_ = begin_ + up8(position_ - begin_); }

  void piece(Stream& stream, size_t bytes, const char* what) {
    if (position_ > end_ || bytes > end_ - position_) {
      corrupt("chunk %zu of %zu bytes ends inside its %s of %zu bytes", chunk_, end_ - begin_, what, bytes);
    }
    stream.append(position_, bytes);
    position_ += bytes;
    pad();
  }

 private:
  Bytes data_;
  size_t position_;
  size_t begin_;
  size_t end_;
  size_t chunk_;
};

}  // namespace

Chunks parse_chunks(Bytes data, const std::vector<int64_t>& offsets, const Counts& counts, const ChunkShape& shape) {
  size_t n = counts.values.size();
  if (offsets.size() != n + 1) {
    corrupt("%zu chunk offsets for %zu chunks", offsets.size(), n);
  }
  if (shape.num_buffers > 64) {
    corrupt("%zu value buffers in a chunk", shape.num_buffers);
  }
  Chunks result;
  result.rep.base = result.def.base = data;
  result.buffers.resize(shape.num_buffers);
  for (Stream& buffer : result.buffers) {
    buffer.base = data;
    buffer.offset.reserve(n);
    buffer.length.reserve(n);
  }
  std::vector<int64_t> num_levels(n);
  std::vector<size_t> sizes(shape.num_buffers);
  for (size_t i = 0; i < n; ++i) {
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || static_cast<size_t>(offsets[i + 1]) > data.size) {
      corrupt("chunk %zu lies at [%lld, %lld) of %zu bytes", i, static_cast<long long>(offsets[i]),
              static_cast<long long>(offsets[i + 1]), data.size);
    }
    Cursor cursor(data, static_cast<size_t>(offsets[i]), static_cast<size_t>(offsets[i + 1]), i);
    num_levels[i] = static_cast<int64_t>(cursor.read<uint16_t>());
    size_t rep_bytes = shape.has_rep ? cursor.read<uint16_t>() : 0;
    size_t def_bytes = shape.has_def ? cursor.read<uint16_t>() : 0;
    for (size_t& size : sizes) {
      size = shape.large ? cursor.read<uint32_t>() : cursor.read<uint16_t>();
    }
    cursor.pad();
    if (shape.has_rep) {
      cursor.piece(result.rep, rep_bytes, "repetition levels");
    }
    if (shape.has_def) {
      cursor.piece(result.def, def_bytes, "definition levels");
    }
    for (size_t k = 0; k < sizes.size(); ++k) {
      cursor.piece(result.buffers[k], sizes[k], "value buffer");
    }
    if (shape.has_def && !shape.has_rep && num_levels[i] != counts.values[i]) {
      corrupt("chunk %zu holds %lld definition levels for %lld values", i, static_cast<long long>(num_levels[i]),
              static_cast<long long>(counts.values[i]));
    }
    if (shape.has_rep && num_levels[i] < counts.values[i]) {
      corrupt("chunk %zu holds %lld repetition levels for %lld values", i, static_cast<long long>(num_levels[i]),
              static_cast<long long>(counts.values[i]));
    }
  }
  result.num_levels = Counts(std::move(num_levels));
  return result;
}

ChunkPlaces locate_chunks(Bytes words, bool large, int64_t num_values, int64_t num_bytes) {
  size_t width = large ? sizeof(uint32_t) : sizeof(uint16_t);
  size_t n = words.size / width;
  if (n == 0 || words.size % width) {
    corrupt("%zu bytes of chunk words of %zu bytes", words.size, width);
  }
  ChunkPlaces places{Block((n + 1) * sizeof(int64_t)), Block((n + 1) * sizeof(int64_t))};
  auto* position = reinterpret_cast<int64_t*>(places.position.data());
  auto* first_value = reinterpret_cast<int64_t*>(places.first_value.data());
  int64_t at = 0, values = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* from = words.data + i * width;
    uint32_t word = large ? load<uint32_t>(from) : load<uint16_t>(from);
    position[i] = at;
    first_value[i] = values;
    // Checked in every step, so that a sum is refused before it can overflow.
    at += (static_cast<int64_t>(word >> 4) + 1) * 8;
    if (at > num_bytes) {
      corrupt("chunks of %lld bytes in a buffer of %lld", static_cast<long long>(at),
              static_cast<long long>(num_bytes));
    }
    if (i + 1 == n) {
      break;
    }
    if ((word & 15) == 0) {
      corrupt("a chunk before the last that holds a single value");
    }
    values += int64_t{1} << (word & 15);
    if (values > num_values) {
      corrupt("chunks hold %lld of %lld values before the last", static_cast<long long>(values),
              static_cast<long long>(num_values));
    }
  }
  position[n] = at;
  first_value[n] = num_values;
  return places;
}

}  // namespace lance
