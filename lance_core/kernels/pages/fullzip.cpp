#include "pages/fullzip.hpp"

namespace lance {
namespace {

struct Entry {
  uint16_t rep;
  uint16_t def;
};

class ControlReader {
 public:
  explicit ControlReader(ControlWord control) : control_(control), bytes_(control.bytes()) {
    if (control.rep_bits > 16 || control.def_bits > 16) {
      corrupt("a control word of %u and %u bits", control.rep_bits, control.def_bits);
    }
  }

  size_t bytes() const { return bytes_; }

  Entry read(const uint8_t* p) const {
    uint32_t word = bytes_ == 0 ? 0 : bytes_ == 1 ? *p : bytes_ == 2 ? load<uint16_t>(p) : load<uint32_t>(p);
    uint32_t def_mask = (uint32_t{1} << control_.def_bits) - 1;
    uint32_t rep_mask = (uint32_t{1} << control_.rep_bits) - 1;
    return {static_cast<uint16_t>((word >> control_.def_bits) & rep_mask), static_cast<uint16_t>(word & def_mask)};
  }

  bool visible(Entry entry) const { return entry.def <= control_.max_visible; }

 private:
  ControlWord control_;
  size_t bytes_;
};

ZippedLevels make_levels(ControlWord control, size_t num_entries) {
  ZippedLevels levels;
  levels.rep = Block(control.rep_bits != 0 ? num_entries * 2 : 0);
  levels.def = Block(control.def_bits != 0 ? num_entries * 2 : 0);
  levels.num_entries = num_entries;
  return levels;
}

void put(ZippedLevels& levels, ControlWord control, size_t i, Entry entry) {
  if (control.rep_bits != 0) {
    reinterpret_cast<uint16_t*>(levels.rep.data())[i] = entry.rep;
  }
  if (control.def_bits != 0) {
    reinterpret_cast<uint16_t*>(levels.def.data())[i] = entry.def;
  }
}

// Calls `each(entry, value bytes, has value)` for all entries. Every step is checked.
template <class Each>
void walk_fixed(Bytes data, const ControlReader& reader, size_t width, Each each) {
  size_t position = 0;
  while (position < data.size) {
    if (data.size - position < reader.bytes()) {
      corrupt("zipped data of %zu bytes ends inside a control word", data.size);
    }
    Entry entry = reader.read(data.data + position);
    position += reader.bytes();
    bool visible = reader.visible(entry);
    if (visible && data.size - position < width) {
      corrupt("zipped data of %zu bytes ends inside a value of %zu bytes", data.size, width);
    }
    each(entry, data.data + position, visible);
    position += visible ? width : 0;
  }
}

template <class T, class Each>
void walk_variable(Bytes data, const ControlReader& reader, Each each) {
  size_t position = 0;
  while (position < data.size) {
    if (data.size - position < reader.bytes()) {
      corrupt("zipped data of %zu bytes ends inside a control word", data.size);
    }
    Entry entry = reader.read(data.data + position);
    position += reader.bytes();
    Bytes value{data.data + position, 0};
    if (entry.def == 0) {
      if (data.size - position < sizeof(T)) {
        corrupt("zipped data of %zu bytes ends inside a length", data.size);
      }
      T length = load<T>(data.data + position);
      position += sizeof(T);
      if (length > data.size - position) {
        corrupt("zipped data of %zu bytes ends inside a value of %llu bytes", data.size,
                static_cast<unsigned long long>(length));
      }
      value = {data.data + position, static_cast<size_t>(length)};
      position += static_cast<size_t>(length);
    }
    each(entry, value, reader.visible(entry));
  }
}

template <class T>
ZippedVariable unzip_lengths(Bytes data, ControlWord control) {
  ControlReader reader(control);
  size_t entries = 0, values = 0, bytes = 0;
  walk_variable<T>(data, reader, [&](Entry, Bytes value, bool visible) {
    ++entries;
    values += visible;
    bytes += value.size;
  });
  if (sizeof(T) == 4 && bytes > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  ZippedVariable result;
  result.levels = make_levels(control, entries);
  result.values.num_values = values;
  result.values.offsets = Block((values + 1) * sizeof(T));
  result.values.data = Block(bytes);
  T* offsets = reinterpret_cast<T*>(result.values.offsets.data());
  uint8_t* to = result.values.data.data();
  size_t i = 0;
  T end = 0;
  *offsets++ = 0;
  walk_variable<T>(data, reader, [&](Entry entry, Bytes value, bool visible) {
    put(result.levels, control, i++, entry);
    if (visible) {
      copy_bytes(to, value.data, value.size);
      to += value.size;
      end += static_cast<T>(value.size);
      *offsets++ = end;
    }
  });
  return result;
}

}  // namespace

ZippedFixed unzip_fixed(Bytes data, ControlWord control, size_t width) {
  ControlReader reader(control);
  if (reader.bytes() + width == 0) {
    corrupt("zipped entries without any bytes");
  }
  size_t entries = 0, values = 0;
  walk_fixed(data, reader, width, [&](Entry, const uint8_t*, bool visible) {
    ++entries;
    values += visible;
  });
  ZippedFixed result;
  result.levels = make_levels(control, entries);
  result.num_values = values;
  result.values = Block(values * width);
  uint8_t* to = result.values.data();
  size_t i = 0;
  walk_fixed(data, reader, width, [&](Entry entry, const uint8_t* value, bool visible) {
    put(result.levels, control, i++, entry);
    if (visible) {
      copy_bytes(to, value, width);
      to += width;
    }
  });
  return result;
}

ZippedVariable unzip_variable(Bytes data, ControlWord control, unsigned length_bits) {
  return offset_bytes(length_bits) == 4 ? unzip_lengths<uint32_t>(data, control)
                                        : unzip_lengths<uint64_t>(data, control);
}

}  // namespace lance
