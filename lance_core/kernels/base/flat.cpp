#include "base/flat.hpp"

#include "base/bits.hpp"

namespace lance {

void require_fixed(const Stream& stream, const Counts& counts, size_t width) {
  require_same_chunks(stream, counts);
  for (size_t i = 0; i < stream.size(); ++i) {
    auto need = static_cast<unsigned __int128>(counts.values[i]) * width;
    if (need > static_cast<size_t>(stream.length[i])) {
      corrupt("chunk %zu has %lld bytes for %lld values of %zu bytes", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]), width);
    }
  }
}

Block join_fixed(const Stream& stream, const Counts& counts, size_t width) {
  require_fixed(stream, counts, width);
  Block out(static_cast<size_t>(counts.total) * width);
  uint8_t* to = out.data();
  for (size_t i = 0; i < stream.size(); ++i) {
    size_t bytes = static_cast<size_t>(counts.values[i]) * width;
    copy_bytes(to, stream.chunk(i).data, bytes);
    to += bytes;
  }
  return out;
}

Block join_bits(const Stream& stream, const Counts& counts) {
  require_same_chunks(stream, counts);
  for (size_t i = 0; i < stream.size(); ++i) {
    if (ceil8(static_cast<size_t>(counts.values[i])) > static_cast<size_t>(stream.length[i])) {
      corrupt("chunk %zu has %lld bytes for %lld bits", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]));
    }
  }
  Block out(ceil8(static_cast<size_t>(counts.total)));
  BitWriter writer(out.data());
  for (size_t i = 0; i < stream.size(); ++i) {
    writer.append_bits(stream.chunk(i).data, static_cast<size_t>(counts.values[i]));
  }
  return out;
}

Block copy_bits(Bytes bits, size_t start, size_t n) {
  if (start > bits.size * 8 || n > bits.size * 8 - start) {
    corrupt("bits [%zu, %zu + %zu) of a bitmap of %zu bytes", start, start, n, bits.size);
  }
  size_t bytes = ceil8(n);
  Block out(bytes);
  const uint8_t* from = bits.data + start / 8;
  size_t shift = start % 8;
  size_t available = bits.size - start / 8;
  for (size_t i = 0; i < bytes; ++i) {
    unsigned next = shift != 0 && i + 1 < available ? from[i + 1] : 0u;
    out.data()[i] = static_cast<uint8_t>((from[i] >> shift) | (next << (8 - shift)));
  }
  if (n % 8 != 0) {
    out.data()[bytes - 1] &= static_cast<uint8_t>((1u << (n % 8)) - 1);
  }
  return out;
}

Block bytes_to_bits(Bytes bytes) {
  Block out(ceil8(bytes.size));
  BitWriter writer(out.data());
  for (size_t i = 0; i < bytes.size; ++i) {
    writer.append(bytes.data[i] != 0);
  }
  return out;
}

Block repeat_value(Bytes value, size_t n) {
  if (value.size != 0 && n > SIZE_MAX / value.size) {
    corrupt("%zu copies of %zu bytes", n, value.size);
  }
  size_t total = value.size * n;
  Block out(total);
  if (total == 0) {
    return out;
  }
  std::memcpy(out.data(), value.data, value.size);
  for (size_t done = value.size; done < total;) {  // double the bytes that are there
    size_t step = done < total - done ? done : total - done;
    std::memcpy(out.data() + done, out.data(), step);
    done += step;
  }
  return out;
}

}  // namespace lance
