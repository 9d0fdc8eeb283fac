#include "functions/replace.hpp"

#include "base/copies.hpp"
#include "functions/find_bytes.hpp"

namespace lance {
namespace {

// Calls `use` with each place of a part, and with the number of its text. All texts are searched at once.
template <class Use>
void each_part(const OffsetReader& offset, Bytes data, size_t num_values, const std::string& part, Use use) {
  size_t i = 0, size = part.size();
  each_place(data, offset[0], offset[num_values], part, [&](size_t place) {
    while (offset[i + 1] <= place) ++i;
    if (place + size <= offset[i + 1]) {
      use(place, i);
      return place + size;
    }
    // The bytes begin in one text and end in another. A later text that is long enough may have the part.
    do {
      ++i;
    } while (i < num_values && offset[i + 1] - offset[i] < size);
    return static_cast<size_t>(offset[i]);
  });
}

class Writer {
 public:
  Writer(const OffsetReader& offset, Bytes data, unsigned offset_bits, uint8_t* offsets, uint8_t* to)
      : offset_(offset), data_(data), bits_(offset_bits), offsets_(offsets), to_(to), from_(offset[0]) {}

  // Writes the ends of all texts before text `i`.
  void finish_before(size_t i, size_t moved) {
    for (; written_ <= i; ++written_) {
      size_t at = offset_[written_] - offset_[0] + moved;  // `moved` wraps around if the texts become shorter
      if (bits_ == 32) {
        store(offsets_ + 4 * written_, static_cast<uint32_t>(at));
      } else {
        store(offsets_ + 8 * written_, static_cast<uint64_t>(at));
      }
    }
  }

  // Copies the bytes up to `end`, which is not before the end of the previous ones, and leaves out some after it.
  void copy_until(size_t end, size_t skipped) {
    to_ = copy_part(to_, data_, from_, end);
    from_ = end + skipped;
  }

  void put(const std::string& bytes) {
    copy_bytes(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

 private:
  const OffsetReader& offset_;
  Bytes data_;
  unsigned bits_;
  uint8_t* offsets_;
  uint8_t* to_;
  size_t from_;
  size_t written_ = 0;
};

// Replaces parts by a text of the same length: in a copy of all bytes.
VariableValues replace_in_place(const OffsetReader& offset, Bytes data, size_t num_values, unsigned offset_bits,
                                const std::string& part, const std::string& by) {
  size_t begin = offset[0], size = offset[num_values] - begin;
  VariableValues result{Block((num_values + 1) * offset_bytes(offset_bits)), Block(size), num_values};
  uint8_t* to = result.data.data();
  copy_bytes(to, data.data + begin, size);
  Writer(offset, data, offset_bits, result.offsets.data(), to).finish_before(num_values, 0);
  each_part(offset, data, num_values, part,
            [&](size_t place, size_t) { std::memcpy(to + (place - begin), by.data(), by.size()); });
  return result;
}

}  // namespace

VariableValues replace_text(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, const std::string& part,
                            const std::string& by) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  OffsetReader offset(offsets.data, offset_bits);
  size_t size = offset[num_values] - offset[0], growth = by.size() - part.size(), moved = 0;
  if (by.size() > part.size()) {
    each_part(offset, data, num_values, part, [&](size_t, size_t) { size += growth; });
  }
  if (offset_bits == 32 && size > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  if (by.size() == part.size()) {
    return replace_in_place(offset, data, num_values, offset_bits, part, by);
  }
  VariableValues result{Block((num_values + 1) * offset_bytes(offset_bits)), Block(size + kCopySlack), num_values};
  Writer writer(offset, data, offset_bits, result.offsets.data(), result.data.data());
  each_part(offset, data, num_values, part, [&](size_t place, size_t i) {
    writer.finish_before(i, moved);
    writer.copy_until(place, part.size());
    writer.put(by);
    moved += growth;
  });
  writer.finish_before(num_values, moved);
  writer.copy_until(offset[num_values], 0);
  result.data.resize(offset[num_values] - offset[0] + moved);
  return result;
}

}  // namespace lance
