// Single values of mini-block chunks, in the encodings of numbers and levels. Value `k` is that of cell `k`.
#pragma once

#include "codecs/bitpacking.hpp"
#include "take/chunk_cells.hpp"

namespace lance {

// The words that contain bit-packed values, one or two words per value.
template <class T>
class PackedWords {
 public:
  explicit PackedWords(size_t n) : places_(n), low_(n), high_(n) {}

  // Adds the copies for the `k`-th value, which is value number `value` of a packed group.
  void add(size_t k, const uint8_t* packed, unsigned bits, size_t value, std::vector<Copy>& copies) {
    if (bits == 0) {
      return;
    }
    places_[k] = PackedPlace<T>::of(bits, value);
    copies.push_back({packed + places_[k].low, sizeof(T), reinterpret_cast<uint8_t*>(&low_[k])});
    if (places_[k].is_split()) {
      copies.push_back({packed + places_[k].high(), sizeof(T), reinterpret_cast<uint8_t*>(&high_[k])});
    }
  }

  // Adds the copy for a value that is a word of its own.
  void add_word(size_t k, const uint8_t* word, std::vector<Copy>& copies) {
    places_[k].bits = sizeof(T) * 8;
    copies.push_back({word, sizeof(T), reinterpret_cast<uint8_t*>(&low_[k])});
  }

  T value(size_t k) const { return places_[k].bits == 0 ? T{0} : places_[k].value(low_[k], high_[k]); }

 private:
  std::vector<PackedPlace<T>> places_;
  std::vector<T> low_;
  std::vector<T> high_;
};

// Copies values of `width` bytes to `out + k * width`.
inline void pick_fixed(const ChunkCells& column, const std::vector<Cell>& cells, const Members& members, size_t width,
                       uint8_t* out) {
  column.copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    if (cell.count > cell.bytes / width) {
      corrupt("%zu values of %zu bytes in %zu bytes", cell.count, width, cell.bytes);
    }
    copies.push_back({cell.data + cell.index * width, width, out + k * width});
  });
}

// Decodes values of inline bit packing to `out[k]`.
template <class T>
void pick_inline(const ChunkCells& column, const std::vector<Cell>& cells, const Members& members, T* out) {
  std::vector<T> bits(cells.size());
  column.copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    if (cell.bytes < sizeof(T)) {
      corrupt("a chunk without its bit width");
    }
    copies.push_back({cell.data, sizeof(T), reinterpret_cast<uint8_t*>(&bits[k])});
  });
  PackedWords<T> words(cells.size());
  column.copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    check_inline_chunk<T>(cell.bytes, cell.count, bits[k], k);
    words.add(k, cell.data + sizeof(T), static_cast<unsigned>(bits[k]), cell.index, copies);
  });
  for (size_t k : members) {
    out[k] = words.value(k);
  }
}

}  // namespace lance
