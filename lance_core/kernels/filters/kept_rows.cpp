#include "filters/kept_rows.hpp"

#include "base/bits.hpp"
#include "filters/blocks.hpp"
#include "filters/kept_values.hpp"
#include "filters/positions.hpp"

namespace lance {
namespace {

// From this many bytes on, memcpy is faster than a loop over values.
constexpr size_t kLongCopy = 64;

// The wanted rows, counted from the first decoded row. `each` calls a function with every run of them: here with every
// row, since runs of rows that are chosen by their values are short.
struct Rows {
  const uint8_t* numbers;
  size_t count;
  int64_t first;

  template <class Use>
  void each(Use use) const {
    for (size_t k = 0; k < count; ++k) {
      use(static_cast<size_t>(load<int64_t>(numbers + 8 * k) - first), size_t{1});
    }
  }
};

// Items of lists, or bytes, to which the offsets of wanted values point. Each value gives a run.
template <class Outer, class T>
struct Inner {
  const Outer& outer;
  const uint8_t* offsets;
  size_t count;

  template <class Use>
  void each(Use use) const {
    outer.each([&](size_t first, size_t n) {
      T begin = load<T>(offsets + first * sizeof(T));
      use(static_cast<size_t>(begin), static_cast<size_t>(load<T>(offsets + (first + n) * sizeof(T)) - begin));
    });
  }
};

Rows checked(const KeptRows& kept, size_t num_rows) {
  size_t n = kept.rows.size / 8;
  bool ascends = kept.rows.size % 8 == 0;
  for (size_t k = 1; k < n; ++k) {
    ascends &= load<int64_t>(kept.rows.data + 8 * k - 8) < load<int64_t>(kept.rows.data + 8 * k);
  }
  int64_t first = n == 0 ? kept.first_row : load<int64_t>(kept.rows.data);
  int64_t last = n == 0 ? kept.first_row : load<int64_t>(kept.rows.data + 8 * n - 8);
  // Compared as unsigned numbers, since the difference of any two numbers may not fit.
  uint64_t distance = static_cast<uint64_t>(last) - static_cast<uint64_t>(kept.first_row);
  if (!ascends || first < kept.first_row || distance >= num_rows) {
    corrupt("%zu rows from %lld to %lld where there are %zu from %lld on", n, static_cast<long long>(first),
            static_cast<long long>(last), num_rows, static_cast<long long>(kept.first_row));
  }
  return {kept.rows.data, n, kept.first_row};
}

// Returns the bits of the wanted values. Bit `first` of the bitmap is that of value 0.
template <class Wanted>
Block keep_bits(const Block& bits, size_t first, const Wanted& wanted) {
  Block kept(ceil8(wanted.count));
  uint8_t* to = kept.data();
  unsigned byte = 0, filled = 0;
  wanted.each([&](size_t value, size_t count) {
    for (size_t at = first + value; at < first + value + count; ++at) {
      byte |= (bits.data()[at / 8] >> (at % 8) & 1u) << filled;
      if (++filled == 8) {
        *to++ = static_cast<uint8_t>(byte);
        byte = filled = 0;
      }
    }
  });
  if (filled != 0) {
    *to = static_cast<uint8_t>(byte);
  }
  return kept;
}

template <class T, class Wanted>
void copy_values(const uint8_t* from, const Wanted& wanted, uint8_t* to) {
  wanted.each([&](size_t value, size_t count) {
    const uint8_t* first = from + value * sizeof(T);
    if (count * sizeof(T) >= kLongCopy) {
      std::memcpy(to, first, count * sizeof(T));
    } else {
      for (size_t i = 0; i < count; ++i) {
        store(to + i * sizeof(T), load<T>(first + i * sizeof(T)));
      }
    }
    to += count * sizeof(T);
  });
}

// Returns the wanted values, of `width` bytes each.
template <class Wanted>
Block keep_fixed(const uint8_t* from, size_t width, const Wanted& wanted) {
  Block kept(wanted.count * width);
  uint8_t* to = kept.data();
  switch (width) {
    case 1:
      copy_values<uint8_t>(from, wanted, to);
      break;
    case 2:
      copy_values<uint16_t>(from, wanted, to);
      break;
    case 4:
      copy_values<uint32_t>(from, wanted, to);
      break;
    case 8:
      copy_values<uint64_t>(from, wanted, to);
      break;
    default:
      wanted.each([&](size_t value, size_t count) {
        copy_bytes(to, from + value * width, count * width);
        to += count * width;
      });
  }
  return kept;
}

// Returns the offsets of the wanted values, from 0 on. The offset of value 0 is at `from`.
template <class T, class Wanted>
Block keep_offsets(const uint8_t* from, const Wanted& wanted) {
  Block kept((wanted.count + 1) * sizeof(T));
  uint8_t* to = kept.data();
  T end = 0;
  store(to, end);
  wanted.each([&](size_t value, size_t count) {
    for (size_t i = value; i < value + count; ++i) {
      end += load<T>(from + (i + 1) * sizeof(T)) - load<T>(from + i * sizeof(T));
      to += sizeof(T);
      store(to, end);
    }
  });
  return kept;
}

// Keeps the offsets of the wanted values, and calls `use` with what they point to. Returns the offsets.
template <class T, class Wanted, class Use>
Block keep_pointers(const Block& offsets, size_t first, const Wanted& wanted, Use use) {
  const uint8_t* from = offsets.data() + first * sizeof(T);
  Block kept = keep_offsets<T>(from, wanted);
  use(Inner<Wanted, T>{wanted, from, static_cast<size_t>(load<T>(kept.data() + wanted.count * sizeof(T)))});
  return kept;
}

template <class Wanted, class Use>
Block keep_pointers(const Block& offsets, size_t first, unsigned bits, const Wanted& wanted, Use use) {
  return bits == 64 ? keep_pointers<uint64_t>(offsets, first, wanted, use)
                    : keep_pointers<uint32_t>(offsets, first, wanted, use);
}

template <class Wanted>
void keep_values(const DecodedRows& decoded, unsigned value_bits, const Wanted& wanted, DecodedRows& result) {
  result.num_values = wanted.count;
  if (decoded.validity) {
    // The validity of items in lists begins with the first wanted item.
    result.validity = keep_bits(*decoded.validity, decoded.list_offsets ? 0 : decoded.first_value, wanted);
  }
  if (decoded.data) {
    auto keep_text = [&](const auto& bytes) { result.data = keep_fixed(decoded.data->data(), 1, bytes); };
    result.values = keep_pointers(decoded.values, decoded.first_value, value_bits, wanted, keep_text);
  } else if (value_bits == 1) {
    result.values = keep_bits(decoded.values, decoded.first_value, wanted);
  } else {
    size_t width = value_bits / 8;
    result.values = keep_fixed(decoded.values.data() + decoded.first_value * width, width, wanted);
  }
}

// The validity of kept values, written once a value of some block is null.
class KeptValidity {
 public:
  // There are `count` kept values.
  explicit KeptValidity(size_t count) : count_(count) {}

  // Adds `n` kept values, all of them valid.
  void add_valid(size_t n) {
    num_before_ += n;
    if (bits_) append_valid(n);
  }

  // Adds the `n` kept ones of `num_rows` values, whose validity begins with bit `first`.
  void add(const Block& validity, size_t first, const KeptMask& mask, size_t num_rows, size_t n) {
    check_bits({validity.data(), validity.size()}, first, num_rows);
    if (!bits_) {
      bits_.emplace(ceil8(count_));
      writer_.emplace(bits_->data());
      append_valid(num_before_);
    }
    append_kept_bits(*writer_, {validity.data(), validity.size()}, first, mask.bits, mask.start, num_rows);
    num_before_ += n;
  }

  std::optional<Block> take() { return std::move(bits_); }

 private:
  void append_valid(size_t n) {
    for (; n >= 64; n -= 64) writer_->append_word(~uint64_t{0}, 64);
    writer_->append_word((uint64_t{1} << n) - 1, n);
  }

  size_t count_;
  size_t num_before_ = 0;
  std::optional<Block> bits_;
  std::optional<BitWriter> writer_;
};

template <class Pages>
DecodedRows masked_rows(const Pages& page, PieceReader& file, size_t start, size_t end, const KeptMask& mask) {
  size_t width = page.bits / 8;
  check_fixed_rows(page, start, end, width);
  check_bits(mask.bits, mask.start, end - start);
  size_t count = count_bits(mask.bits, mask.start, end - start);
  if (count > SIZE_MAX / 2 / width) corrupt("%zu values of %zu bytes", count, width);
  DecodedRows kept;
  kept.num_values = count;
  kept.values = Block(count * width + kKeptSlack);
  uint8_t* out = kept.values.data();
  auto keep_mapped = [&](const uint8_t* values) {
    keep_values(values, width, mask.bits, mask.start, end - start, out);
  };
  if (use_mapped(page, file, start, end, keep_mapped)) {
    kept.values.resize(count * width);
    return kept;
  }
  KeptValidity validity(count);
  each_block(page, file, start, end, width, [&](const DecodedRows& rows, size_t from, size_t n) {
    KeptMask part{mask.bits, mask.start + from};
    uint8_t* next = keep_values(rows.values.data() + rows.first_value * width, width, part.bits, part.start, n, out);
    size_t num_kept = static_cast<size_t>(next - out) / width;
    out = next;
    if (rows.validity) {
      validity.add(*rows.validity, rows.first_value, part, n, num_kept);
    } else {
      validity.add_valid(num_kept);
    }
  });
  kept.values.resize(count * width);
  kept.validity = validity.take();
  return kept;
}

}  // namespace

DecodedRows decode_masked(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, const KeptMask& mask) {
  return masked_rows(page, file, start, end, mask);
}

DecodedRows decode_masked(const FlatPage& page, PieceReader& file, size_t start, size_t end, const KeptMask& mask) {
  return masked_rows(page, file, start, end, mask);
}

DecodedRows keep_rows(const DecodedRows& decoded, size_t num_rows, const KeptRows& kept, unsigned value_bits,
                      unsigned list_bits) {
  if (value_bits != 1 && (value_bits == 0 || value_bits % 8 != 0)) {
    corrupt("values of %u bits", value_bits);
  }
  Rows rows = checked(kept, num_rows);
  DecodedRows result;
  if (!decoded.list_offsets) {
    keep_values(decoded, value_bits, rows, result);
    return result;
  }
  if (decoded.list_validity) {
    result.list_validity = keep_bits(*decoded.list_validity, 0, rows);
  }
  auto keep_items = [&](const auto& items) { keep_values(decoded, value_bits, items, result); };
  result.list_offsets = keep_pointers(*decoded.list_offsets, 0, list_bits, rows, keep_items);
  return result;
}

}  // namespace lance
