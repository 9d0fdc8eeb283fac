#include "encode/fullzip.hpp"

#include <algorithm>

namespace lance {
namespace {

struct Entries {
  Bytes rep;
  Bytes def;
  ControlWord control;
  uint16_t max_rep;
  size_t size;

  uint16_t rep_at(size_t i) const { return rep.data == nullptr ? 0 : load<uint16_t>(rep.data + 2 * i); }
  uint16_t def_at(size_t i) const { return def.data == nullptr ? 0 : load<uint16_t>(def.data + 2 * i); }
  bool begins_row(size_t i) const { return rep.data == nullptr || rep_at(i) == max_rep; }
};

Entries entries_of(Bytes rep, Bytes def, size_t num_values, ControlWord control, uint16_t max_rep) {
  if (rep.data != nullptr && def.data != nullptr && rep.size != def.size) {
    corrupt("%zu bytes of repetition levels and %zu of definition levels", rep.size, def.size);
  }
  bool has_levels = rep.data != nullptr || def.data != nullptr;
  Entries entries{rep, def, control, max_rep, has_levels ? std::max(rep.size, def.size) / 2 : num_values};
  if (control.rep_bits > 16 || control.def_bits > 16) {
    corrupt("levels of %u and %u bits", control.rep_bits, control.def_bits);
  }
  size_t visible = 0;
  for (size_t i = 0; i < entries.size; ++i) {
    visible += entries.def_at(i) <= control.max_visible;
    if (entries.rep_at(i) >> control.rep_bits != 0 || entries.def_at(i) >> control.def_bits != 0) {
      corrupt("entry %zu has levels that do not fit into their bits", i);
    }
  }
  if (visible != num_values) {
    corrupt("%zu visible entries for %zu values", visible, num_values);
  }
  return entries;
}

inline uint8_t* write_control(const Entries& entries, size_t i, size_t bytes, uint8_t* to) {
  uint32_t word = static_cast<uint32_t>(entries.rep_at(i)) << entries.control.def_bits | entries.def_at(i);
  switch (bytes) {
    case 1:
      *to = static_cast<uint8_t>(word);
      break;
    case 2:
      store(to, static_cast<uint16_t>(word));
      break;
    case 4:
      store(to, word);
      break;
  }
  return to + bytes;
}

// Writes row positions with the narrowest width that fits the last one.
class Index {
 public:
  Index(const Entries& entries, size_t total) {
    size_t rows = 0;
    for (size_t i = 0; i < entries.size; ++i) {
      rows += entries.begins_row(i);
    }
    width_ = total < 1u << 8 ? 1 : total < 1u << 16 ? 2 : total < size_t{1} << 32 ? 4 : 8;
    block_ = Block((rows + 1) * width_);
    to_ = block_.data();
  }

  void add(uint64_t position) {
    std::memcpy(to_, &position, width_);
    to_ += width_;
  }

  unsigned width() const { return width_; }
  Block finish() { return std::move(block_); }

 private:
  Block block_;
  uint8_t* to_ = nullptr;
  unsigned width_ = 0;
};

}  // namespace

Zipped zip_fixed(Bytes values, size_t width, size_t num_values, Bytes rep, Bytes def, ControlWord control,
                 uint16_t max_rep) {
  if (width != 0 && values.size / width < num_values) {
    corrupt("%zu bytes for %zu values of %zu bytes", values.size, num_values, width);
  }
  Entries entries = entries_of(rep, def, num_values, control, max_rep);
  size_t control_bytes = control.bytes();
  size_t total = entries.size * control_bytes + num_values * width;
  Zipped out;
  out.data = Block(total);
  uint8_t* to = out.data.data();
  const uint8_t* from = values.data;
  bool with_index = rep.data != nullptr;
  Index index(entries, total);
  for (size_t i = 0; i < entries.size; ++i) {
    if (with_index && entries.begins_row(i)) {
      index.add(static_cast<uint64_t>(to - out.data.data()));
    }
    to = write_control(entries, i, control_bytes, to);
    if (entries.def_at(i) <= control.max_visible) {
      copy_bytes(to, from, width);
      to += width;
      from += width;
    }
  }
  if (with_index) {
    index.add(total);
    out.index_bytes = index.width();
    out.index = index.finish();
  }
  return out;
}

Zipped zip_variable(Bytes offsets, Bytes data, size_t num_values, unsigned length_bits, Bytes rep, Bytes def,
                    ControlWord control, uint16_t max_rep) {
  check_offsets(offsets, num_values, data.size, length_bits);
  Entries entries = entries_of(rep, def, num_values, control, max_rep);
  size_t control_bytes = control.bytes(), length_bytes = offset_bytes(length_bits);
  OffsetReader offset(offsets.data, length_bits);
  size_t total = entries.size * control_bytes;
  size_t value = 0;
  for (size_t i = 0; i < entries.size; ++i) {
    uint16_t level = entries.def_at(i);
    if (level == 0) {
      total += length_bytes + (offset[value + 1] - offset[value]);
    }
    value += level <= control.max_visible;
  }
  Zipped out;
  out.data = Block(total);
  uint8_t* to = out.data.data();
  Index index(entries, total);
  value = 0;
  for (size_t i = 0; i < entries.size; ++i) {
    if (entries.begins_row(i)) {
      index.add(static_cast<uint64_t>(to - out.data.data()));
    }
    to = write_control(entries, i, control_bytes, to);
    uint16_t level = entries.def_at(i);
    if (level == 0) {
      size_t begin = offset[value], bytes = offset[value + 1] - begin;
      length_bits == 64 ? store<uint64_t>(to, bytes) : store<uint32_t>(to, static_cast<uint32_t>(bytes));
      copy_bytes(to + length_bytes, data.data + begin, bytes);
      to += length_bytes + bytes;
    }
    value += level <= control.max_visible;
  }
  index.add(total);
  out.index_bytes = index.width();
  out.index = index.finish();
  return out;
}

}  // namespace lance
