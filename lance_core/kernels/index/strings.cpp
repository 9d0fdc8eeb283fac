#include "index/strings.hpp"

#include <algorithm>
#include <cstring>

#include "compression/xxhash.hpp"

namespace lance {

namespace {

// Reads the strings by number. Offsets are checked when a string is read, since a search reads few of them.
class StringReader {
 public:
  explicit StringReader(const Strings& strings) : strings_(strings), wide_(strings.offset_bits == 64) {
    size_t width = wide_ ? 8 : 4;
    if (strings.offset_bits != 32 && strings.offset_bits != 64) {
      corrupt("offsets of %u bits", strings.offset_bits);
    }
    if (strings.offsets.size < width || strings.offsets.size % width != 0) {
      corrupt("%zu bytes are no array of offsets", strings.offsets.size);
    }
    size_ = strings.offsets.size / width - 1;
  }

  size_t size() const { return size_; }

  Bytes operator[](size_t i) const {
    int64_t start = offset(i), end = offset(i + 1);
    if (start < 0 || end < start) {
      corrupt("offsets of strings descend from %lld to %lld", static_cast<long long>(start),
              static_cast<long long>(end));
    }
    return strings_.data.slice(static_cast<size_t>(start), static_cast<size_t>(end - start));
  }

 private:
  int64_t offset(size_t i) const {
    const uint8_t* p = strings_.offsets.data;
    return wide_ ? load<int64_t>(p + 8 * i) : load<int32_t>(p + 4 * i);
  }

  const Strings& strings_;
  bool wide_;
  size_t size_ = 0;
};

int compare(Bytes a, Bytes b) {
  size_t common = std::min(a.size, b.size);
  int order = common == 0 ? 0 : std::memcmp(a.data, b.data, common);
  return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

}  // namespace

Block hash_strings(const Strings& strings) {
  StringReader reader(strings);
  Block hashes(8 * reader.size());
  for (size_t i = 0; i < reader.size(); ++i) {
    store(hashes.data() + 8 * i, xxhash64(reader[i]));
  }
  return hashes;
}

Block search_strings(const Strings& strings, const Strings& needles, bool after) {
  StringReader reader(strings), wanted(needles);
  Block places(8 * wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    Bytes needle = wanted[i];
    size_t low = 0, high = reader.size();
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      int order = compare(reader[middle], needle);
      if (order < 0 || (after && order == 0)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    store(places.data() + 8 * i, static_cast<int64_t>(low));
  }
  return places;
}

}  // namespace lance
