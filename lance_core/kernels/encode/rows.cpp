#include "encode/rows.hpp"

#include <algorithm>

#include "base/bits.hpp"

namespace lance {

Block interleave_rows(const std::vector<Bytes>& columns, const std::vector<size_t>& widths, size_t num_rows) {
  if (columns.size() != widths.size()) {
    corrupt("%zu columns and %zu widths", columns.size(), widths.size());
  }
  size_t stride = 0;
  for (size_t k = 0; k < columns.size(); ++k) {
    if (widths[k] != 0 && columns[k].size / widths[k] < num_rows) {
      corrupt("%zu bytes for %zu values of %zu bytes", columns[k].size, num_rows, widths[k]);
    }
    stride += widths[k];
  }
  Block out(num_rows * stride);
  uint8_t* to = out.data();
  for (size_t k = 0; k < columns.size(); ++k) {
    for (size_t i = 0; i < num_rows; ++i) {
      copy_bytes(to + i * stride, columns[k].data + i * widths[k], widths[k]);
    }
    to += widths[k];
  }
  return out;
}

VariableValues join_variable_rows(const std::vector<PackedSource>& fields, size_t num_rows, Validity validity) {
  for (const PackedSource& field : fields) {
    if (field.length_bits != 0) {
      check_offsets(field.offsets, num_rows, field.data.size, field.length_bits);
    } else if (field.width != 0 && field.data.size / field.width < num_rows) {
      corrupt("%zu bytes for %zu values of %zu bytes", field.data.size, num_rows, field.width);
    }
  }
  if (!validity.absent() &&
      (validity.offset > validity.bits.size * 8 || num_rows > validity.bits.size * 8 - validity.offset)) {
    corrupt("%zu bytes for %zu bits", validity.bits.size, num_rows);
  }
  auto value = [](const PackedSource& field, size_t i) {
    if (field.length_bits == 0) {
      return Bytes{field.data.data + i * field.width, field.width};
    }
    OffsetReader offset(field.offsets.data, field.length_bits);
    return Bytes{field.data.data + offset[i], static_cast<size_t>(offset[i + 1] - offset[i])};
  };
  VariableValues out;
  out.num_values = num_rows;
  out.offsets = Block((num_rows + 1) * 8);
  size_t total = 0;
  store<uint64_t>(out.offsets.data(), 0);
  for (size_t i = 0; i < num_rows; ++i) {
    for (const PackedSource& field : fields) {
      if (validity[i]) {
        total += field.length_bits / 8 + value(field, i).size;
      }
    }
    store<uint64_t>(out.offsets.data() + 8 * (i + 1), total);
  }
  out.data = Block(total);
  uint8_t* to = out.data.data();
  for (size_t i = 0; i < num_rows; ++i) {
    for (const PackedSource& field : fields) {
      if (!validity[i]) {
        continue;
      }
      Bytes bytes = value(field, i);
      if (field.length_bits == 64) {
        store<uint64_t>(to, bytes.size);
      } else if (field.length_bits == 32) {
        store<uint32_t>(to, static_cast<uint32_t>(bytes.size));
      }
      to += field.length_bits / 8;
      copy_bytes(to, bytes.data, bytes.size);
      to += bytes.size;
    }
  }
  return out;
}

Block cut_bits(Bytes bits, size_t offset, const Counts& counts) {
  auto total = static_cast<size_t>(counts.total);
  if (offset > bits.size * 8 || total > bits.size * 8 - offset) {
    corrupt("%zu bytes for %zu bits from bit %zu on", bits.size, total, offset);
  }
  size_t bytes = 0;
  for (int64_t n : counts.values) {
    bytes += ceil8(static_cast<size_t>(n));
  }
  Block out(bytes);
  uint8_t* to = out.data();
  for (int64_t n : counts.values) {
    auto count = static_cast<size_t>(n);
    size_t shift = offset % 8;
    const uint8_t* from = bits.data + offset / 8;
    const uint8_t* end = bits.data + bits.size;
    for (size_t i = 0; i < ceil8(count); ++i) {
      unsigned next = shift != 0 && from + i + 1 < end ? from[i + 1] : 0;
      to[i] = static_cast<uint8_t>((from[i] | next << 8) >> shift);
    }
    if (count % 8 != 0) {
      to[count / 8] &= static_cast<uint8_t>((1u << count % 8) - 1);
    }
    to += ceil8(count);
    offset += count;
  }
  return out;
}

Block split_byte_streams(Bytes values, size_t width, size_t chunk_values) {
  if (width == 0 || values.size % width != 0 || chunk_values == 0) {
    corrupt("%zu bytes of values of %zu bytes", values.size, width);
  }
  size_t n = values.size / width;
  Block out(values.size);
  uint8_t* to = out.data();
  for (size_t at = 0; at < n; at += chunk_values) {
    size_t count = std::min(chunk_values, n - at);
    const uint8_t* from = values.data + at * width;
    for (size_t byte = 0; byte < width; ++byte) {
      for (size_t i = 0; i < count; ++i) {
        *to++ = from[i * width + byte];
      }
    }
  }
  return out;
}

}  // namespace lance
