#include "pages/rows.hpp"

#include "base/bits.hpp"

namespace lance {
namespace {

template <class T>
void copy_column(const uint8_t* from, size_t stride, size_t n, uint8_t* to) {
  for (size_t i = 0; i < n; ++i) {
    store(to + i * sizeof(T), load<T>(from + i * stride));
  }
}

}  // namespace

std::vector<Block> split_rows(Bytes rows, size_t num_rows, const std::vector<size_t>& widths) {
  size_t stride = 0;
  for (size_t width : widths) {
    if (width > (size_t{1} << 32)) {
      corrupt("a field of %zu bytes in a row", width);
    }
    stride += width;
  }
  if (stride != 0 && rows.size / stride < num_rows) {
    corrupt("%zu bytes for %zu rows of %zu bytes", rows.size, num_rows, stride);
  }
  std::vector<Block> columns;
  columns.reserve(widths.size());
  const uint8_t* from = rows.data;
  for (size_t width : widths) {
    Block column(num_rows * width);
    switch (width) {
      case 0:
        break;
      case 1:
        copy_column<uint8_t>(from, stride, num_rows, column.data());
        break;
      case 2:
        copy_column<uint16_t>(from, stride, num_rows, column.data());
        break;
      case 4:
        copy_column<uint32_t>(from, stride, num_rows, column.data());
        break;
      case 8:
        copy_column<uint64_t>(from, stride, num_rows, column.data());
        break;
      default:
        for (size_t i = 0; i < num_rows; ++i) {
          std::memcpy(column.data() + i * width, from + i * stride, width);
        }
    }
    columns.push_back(std::move(column));
    from += width;
  }
  return columns;
}

Block join_row_bits(Bytes rows, size_t num_rows, size_t bits_per_row) {
  size_t row_bytes = ceil8(bits_per_row);
  if (row_bytes != 0 && rows.size / row_bytes < num_rows) {
    corrupt("%zu bytes for %zu bitmaps of %zu bits", rows.size, num_rows, bits_per_row);
  }
  if (row_bytes == 0) {
    return Block(0);
  }
  Block out(ceil8(num_rows * bits_per_row));
  BitWriter writer(out.data());
  for (size_t i = 0; i < num_rows; ++i) {
    writer.append_bits(rows.data + i * row_bytes, bits_per_row);
  }
  return out;
}

namespace {

// Calls `each(row, field, bytes)` for the members of all rows. Members of null rows are empty.
template <class Each>
void walk_rows(Bytes offsets, Bytes data, size_t num_rows, unsigned offset_bits, const std::vector<PackedField>& fields,
               Each each) {
  OffsetReader offset(offsets.data, offset_bits);
  for (size_t row = 0; row < num_rows; ++row) {
    size_t position = offset[row];
    size_t end = offset[row + 1];
    bool null = position == end;
    for (size_t k = 0; k < fields.size(); ++k) {
      if (null) {
        each(row, k, Bytes{data.data, 0});
        continue;
      }
      size_t length = fields[k].width;
      if (fields[k].length_bits != 0) {
        size_t bytes = offset_bytes(fields[k].length_bits);
        if (end - position < bytes) {
          corrupt("row %zu ends inside the length of field %zu", row, k);
        }
        length = OffsetReader(data.data + position, fields[k].length_bits)[0];
        position += bytes;
      }
      if (length > end - position) {
        corrupt("row %zu ends inside field %zu of %zu bytes", row, k, length);
      }
      each(row, k, Bytes{data.data + position, length});
      position += length;
    }
    if (position != end) {
      corrupt("row %zu has %zu bytes after its last field", row, end - position);
    }
  }
}

void put_offset(VariableValues& values, size_t i, size_t end, unsigned bits) {
  if (bits == 64) {
    store<uint64_t>(values.offsets.data() + 8 * i, end);
  } else {
    store<uint32_t>(values.offsets.data() + 4 * i, static_cast<uint32_t>(end));
  }
}

}  // namespace

std::vector<PackedColumn> split_variable_rows(Bytes offsets, Bytes data, size_t num_rows, unsigned offset_bits,
                                              const std::vector<PackedField>& fields) {
  check_offsets(offsets, num_rows, data.size, offset_bits);
  for (const PackedField& field : fields) {
    if (field.width > (size_t{1} << 32)) {
      corrupt("a field of %zu bytes in a row", field.width);
    }
  }
  std::vector<size_t> bytes(fields.size());
  walk_rows(offsets, data, num_rows, offset_bits, fields,
            [&](size_t, size_t k, Bytes value) { bytes[k] += value.size; });
  std::vector<PackedColumn> columns(fields.size());
  for (size_t k = 0; k < fields.size(); ++k) {
    if (fields[k].length_bits == 0) {
      columns[k].fixed = Block(num_rows * fields[k].width);
      continue;
    }
    if (fields[k].length_bits == 32 && bytes[k] > INT32_MAX) {
      throw OffsetOverflow("more bytes than 32-bit offsets can address");
    }
    columns[k].variable.num_values = num_rows;
    columns[k].variable.offsets = Block((num_rows + 1) * offset_bytes(fields[k].length_bits));
    columns[k].variable.data = Block(bytes[k]);
    put_offset(columns[k].variable, 0, 0, fields[k].length_bits);
  }
  std::vector<size_t> filled(fields.size());
  walk_rows(offsets, data, num_rows, offset_bits, fields, [&](size_t row, size_t k, Bytes value) {
    if (fields[k].length_bits == 0) {
      uint8_t* to = columns[k].fixed.data() + row * fields[k].width;
      if (value.size != 0) {
        std::memcpy(to, value.data, value.size);
      } else {
        std::memset(to, 0, fields[k].width);
      }
    } else {
      copy_bytes(columns[k].variable.data.data() + filled[k], value.data, value.size);
      filled[k] += value.size;
      put_offset(columns[k].variable, row + 1, filled[k], fields[k].length_bits);
    }
  });
  return columns;
}

}  // namespace lance
