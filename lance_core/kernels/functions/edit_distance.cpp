#include "functions/edit_distance.hpp"

#include <algorithm>
#include <numeric>

#include "base/variable.hpp"

namespace lance {
namespace {

// Most pairs of characters of two texts.
constexpr size_t kMostPairs = size_t{1} << 28;

// Sets `out` to the characters of a text. Bytes that are no UTF-8 still give some characters.
void read_characters(Bytes text, std::vector<uint32_t>& out) {
  out.clear();
  for (size_t i = 0; i < text.size; ++i) {
    uint8_t byte = text.data[i];
    if ((byte & 0xC0) == 0x80 && !out.empty()) {
      out.back() = out.back() << 6 | (byte & 0x3F);
    } else {
      out.push_back(byte);
    }
  }
}

}  // namespace

Block edit_distances(Bytes left_offsets, Bytes left, Bytes right_offsets, Bytes right, size_t num_values) {
  check_offsets(left_offsets, num_values, left.size, 64);
  check_offsets(right_offsets, num_values, right.size, 64);
  Block result(num_values * sizeof(int32_t));
  std::vector<uint32_t> a, b;
  std::vector<int32_t> row;
  auto value = [](Bytes offsets, Bytes data, size_t i) {
    auto start = load<uint64_t>(offsets.data + i * sizeof(uint64_t));
    return data.slice(start, load<uint64_t>(offsets.data + (i + 1) * sizeof(uint64_t)) - start);
  };
  for (size_t i = 0; i < num_values; ++i) {
    read_characters(value(left_offsets, left, i), a);
    read_characters(value(right_offsets, right, i), b);
    if (a.size() > 0 && b.size() > kMostPairs / a.size()) {
      no_result("texts of %zu and %zu characters are too long", a.size(), b.size());
    }
    // `row[j]` is the distance between the characters of `a` so far and the first j of `b`.
    row.resize(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (size_t k = 0; k < a.size(); ++k) {
      int32_t diagonal = row[0];
      row[0] = static_cast<int32_t>(k + 1);
      for (size_t j = 0; j < b.size(); ++j) {
        int32_t replaced = diagonal + (a[k] == b[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
      }
    }
    store<int32_t>(result.data() + i * sizeof(int32_t), row.back());
  }
  return result;
}

}  // namespace lance
