#include "encode/chunks.hpp"

#include <algorithm>

namespace lance {
namespace {

constexpr size_t kMaxLevels = 65535;      // limit per chunk of entries, and of the bytes of each kind of levels
constexpr size_t kMaxSmallChunk = 32768;  // 12 bits, in units of 8 bytes
constexpr size_t kMaxLargeChunk = size_t{1} << 31;

[[noreturn]] void overflow(const char* what, size_t chunk, size_t found) {
  throw ChunkOverflow("chunk " + std::to_string(chunk) + " has " + std::to_string(found) + " " + what);
}

struct Chunk {
  size_t first_level, num_levels;
  size_t rep_bytes, def_bytes;
  size_t bytes;
};

uint16_t level_at(Bytes levels, size_t i) { return load<uint16_t>(levels.data + 2 * i); }

LANCE_MULTIVERSION size_t count_at_most(const uint8_t* levels, size_t n, uint16_t limit) {
  size_t total = 0;
  for (size_t i = 0; i < n;) {
    uint16_t found = 0;  // as wide as the levels, so that the compiler uses vectors
    for (size_t end = i + std::min<size_t>(n - i, 4096); i < end; ++i) {
      found = static_cast<uint16_t>(found + (load<uint16_t>(levels + 2 * i) <= limit));
    }
    total += found;
  }
  return total;
}

LANCE_MULTIVERSION size_t count_equal(const uint8_t* levels, size_t n, uint16_t level) {
  size_t total = 0;
  for (size_t i = 0; i < n;) {
    uint16_t found = 0;
    for (size_t end = i + std::min<size_t>(n - i, 4096); i < end; ++i) {
      found = static_cast<uint16_t>(found + (load<uint16_t>(levels + 2 * i) == level));
    }
    total += found;
  }
  return total;
}

// Returns the entries of each chunk: the shortest run that contains its values; the last chunk gets all remaining
// entries.
std::vector<Chunk> divide_levels(const Counts& counts, Bytes rep, Bytes def, uint16_t max_visible) {
  size_t n = counts.values.size();
  size_t num_levels = std::max(rep.size, def.size) / 2;
  bool has_levels = rep.data != nullptr || def.data != nullptr;
  std::vector<Chunk> chunks(n);
  size_t at = 0;
  for (size_t i = 0; has_levels && i < n; ++i) {
    auto values = static_cast<size_t>(counts.values[i]);
    size_t end = at;
    if (i + 1 == n) {
      end = num_levels;
      size_t visible = def.data == nullptr ? end - at : count_at_most(def.data + 2 * at, end - at, max_visible);
      if (visible != values) {
        corrupt("the last chunk has %zu values and %zu visible levels", values, visible);
      }
    } else {
      // A missing value takes at least one entry.
      for (size_t missing = values; missing != 0;) {
        if (missing > num_levels - end) {
          corrupt("%zu levels for more values", num_levels);
        }
        size_t visible = def.data == nullptr ? missing : count_at_most(def.data + 2 * end, missing, max_visible);
        end += missing;
        missing -= visible;
      }
    }
    chunks[i].first_level = at;
    chunks[i].num_levels = end - at;
    at = end;
  }
  return chunks;
}

Block repetition_index(const std::vector<Chunk>& chunks, Bytes rep, uint16_t max_rep) {
  Block index(chunks.size() * 16);
  size_t num_levels = rep.size / 2;
  for (size_t i = 0; i < chunks.size(); ++i) {
    // A row ends before an entry that begins a row, and at the end.
    size_t begin = chunks[i].first_level, end = begin + chunks[i].num_levels;
    bool at_end = end == num_levels;
    size_t next = std::min(end + 1, num_levels);
    uint64_t ends = at_end;
    if (begin + 1 < next) {
      ends += count_equal(rep.data + 2 * (begin + 1), next - begin - 1, max_rep);
    }
    size_t last_end = end;
    while (last_end > begin && !(last_end == num_levels || level_at(rep, last_end) == max_rep)) {
      --last_end;
    }
    store<uint64_t>(index.data() + 16 * i, ends);
    store<uint64_t>(index.data() + 16 * i + 8, end - last_end);
  }
  return index;
}

// Writes the pieces of a chunk, each padded to 8 bytes with zeros.
class ChunkWriter {
 public:
  explicit ChunkWriter(uint8_t* out) : begin_(out), to_(out) {}

  template <class T>
  void number(size_t value) {
    store(to_, static_cast<T>(value));
    to_ += sizeof(T);
  }

  void pad() {
    while ((to_ - begin_) % 8 != 0) {
      *to_++ = 0;
    }
  }

  uint8_t* piece(size_t bytes) {
    pad();
    uint8_t* at = to_;
    to_ += bytes;
    return at;
  }

 private:
  uint8_t* begin_;
  uint8_t* to_;
};

}  // namespace

AssembledChunks assemble_chunks(const std::vector<const Stream*>& buffers, const Counts& counts, LevelSource rep,
                                LevelSource def, uint16_t max_rep, uint16_t max_visible, bool large) {
  size_t n = counts.values.size();
  for (const Stream* buffer : buffers) {
    require_same_chunks(*buffer, counts);
  }
  bool has_rep = rep.levels.data != nullptr, has_def = def.levels.data != nullptr;
  if (has_rep && has_def && rep.levels.size != def.levels.size) {
    corrupt("%zu bytes of repetition levels and %zu of definition levels", rep.levels.size, def.levels.size);
  }
  std::vector<Chunk> chunks = divide_levels(counts, rep.levels, def.levels, max_visible);
  size_t header = up8(2 + 2 * (has_rep + has_def) + (large ? 4 : 2) * buffers.size());
  size_t total = 0;
  size_t word_bytes = large ? 4 : 2;
  AssembledChunks out;
  out.words = Block(n * word_bytes);
  for (size_t i = 0; i < n; ++i) {
    Chunk& chunk = chunks[i];
    auto values = static_cast<size_t>(counts.values[i]);
    bool last = i + 1 == n;
    if (!last && (values < 2 || values > 32768 || (values & (values - 1)) != 0)) {
      corrupt("chunk %zu has %zu values", i, values);
    }
    if (chunk.num_levels > kMaxLevels) {
      overflow("levels", i, chunk.num_levels);
    }
    chunk.rep_bytes =
        has_rep ? levels_bytes(rep.levels.data + 2 * chunk.first_level, chunk.num_levels, rep.encoding) : 0;
    chunk.def_bytes =
        has_def ? levels_bytes(def.levels.data + 2 * chunk.first_level, chunk.num_levels, def.encoding) : 0;
    if (std::max(chunk.rep_bytes, chunk.def_bytes) > kMaxLevels) {
      overflow("bytes of levels", i, std::max(chunk.rep_bytes, chunk.def_bytes));
    }
    chunk.bytes = header + up8(chunk.rep_bytes) + up8(chunk.def_bytes);
    for (const Stream* buffer : buffers) {
      chunk.bytes += up8(static_cast<size_t>(buffer->length[i]));
    }
    if (chunk.bytes > (large ? kMaxLargeChunk : kMaxSmallChunk)) {
      overflow("bytes", i, chunk.bytes);
    }
    size_t log = last ? 0 : static_cast<size_t>(__builtin_ctzll(values));
    size_t word = (chunk.bytes / 8 - 1) << 4 | log;
    if (large) {
      store(out.words.data() + 4 * i, static_cast<uint32_t>(word));
    } else {
      store(out.words.data() + 2 * i, static_cast<uint16_t>(word));
    }
    total += chunk.bytes;
  }
  out.chunks = Block(total);
  uint8_t* to = out.chunks.data();
  for (size_t i = 0; i < n; ++i) {
    const Chunk& chunk = chunks[i];
    ChunkWriter writer(to);
    writer.number<uint16_t>(chunk.num_levels);
    if (has_rep) writer.number<uint16_t>(chunk.rep_bytes);
    if (has_def) writer.number<uint16_t>(chunk.def_bytes);
    for (const Stream* buffer : buffers) {
      auto bytes = static_cast<size_t>(buffer->length[i]);
      large ? writer.number<uint32_t>(bytes) : writer.number<uint16_t>(bytes);
    }
    if (has_rep) {
      write_levels(rep.levels.data + 2 * chunk.first_level, chunk.num_levels, rep.encoding,
                   writer.piece(chunk.rep_bytes));
    }
    if (has_def) {
      write_levels(def.levels.data + 2 * chunk.first_level, chunk.num_levels, def.encoding,
                   writer.piece(chunk.def_bytes));
    }
    for (const Stream* buffer : buffers) {
      Bytes bytes = buffer->chunk(i);
      copy_bytes(writer.piece(bytes.size), bytes.data, bytes.size);
    }
    writer.pad();
    to += chunk.bytes;
  }
  if (has_rep) {
    out.repetition_index = repetition_index(chunks, rep.levels, max_rep);
  }
  return out;
}

}  // namespace lance
