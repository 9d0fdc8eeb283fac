#include "take/single_values.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "base/flat.hpp"
#include "codecs/bitpacking.hpp"

namespace lance {
namespace {

// An array of 64-bit numbers at any alignment.
class Int64s {
 public:
  explicit Int64s(Bytes bytes) : bytes_(bytes) {
    if (bytes.size % 8 != 0) {
      corrupt("%zu bytes are no array of 64-bit numbers", bytes.size);
    }
  }
  size_t size() const { return bytes_.size / 8; }
  int64_t operator[](size_t i) const { return load<int64_t>(bytes_.data + 8 * i); }

  // Returns the first entry from `start` on that is above `value`, or size(). The search begins near `start`.
  size_t first_above(int64_t value, size_t start) const {
    size_t step = 1;
    size_t end = start;
    while (end < size() && (*this)[end] <= value) {
      start = end + 1;
      end += step;
      step *= 2;
    }
    end = std::min(end, size());
    while (start < end) {
      size_t middle = start + (end - start) / 2;
      if ((*this)[middle] <= value) {
        start = middle + 1;
      } else {
        end = middle;
      }
    }
    return start;
  }

 private:
  Bytes bytes_;
};

Block to_block(const std::vector<int64_t>& values) {
  Block block(values.size() * 8);
  copy_bytes(block.data(), values.data(), values.size() * 8);
  return block;
}

// Collects chunks in the order in which they are chosen.
class Chosen {
 public:
  Chosen(Bytes positions, Bytes first_values, int64_t base)
      : positions_(positions), first_values_(first_values), base_(base) {
    if (positions_.size() == 0 || positions_.size() != first_values_.size()) {
      corrupt("%zu positions and %zu first values of chunks", positions_.size(), first_values_.size());
    }
    if (base < 0 || base > kMost) {
      corrupt("chunks at %lld", static_cast<long long>(base));
    }
  }

  size_t num_chunks() const { return positions_.size() - 1; }
  const Int64s& first_values() const { return first_values_; }
  size_t size() const { return counts_.size(); }

  // Returns the difference between an entry and the next one.
  static int64_t between(const Int64s& entries, size_t i) {
    int64_t begin = entries[i], end = entries[i + 1];
    if (begin < 0 || end < begin || end > kMost) {
      corrupt("chunk %zu lies between %lld and %lld", i, static_cast<long long>(begin), static_cast<long long>(end));
    }
    return end - begin;
  }

  void add(size_t chunk) {
    int64_t length = between(positions_, chunk);
    offsets_.push_back(base_ + positions_[chunk]);
    lengths_.push_back(length);
    starts_.push_back(starts_.back() + length);
    counts_.push_back(between(first_values_, chunk));
  }

  Block offsets() const { return to_block(offsets_); }
  Block lengths() const { return to_block(lengths_); }
  Block starts() const { return to_block(starts_); }
  Counts counts() { return Counts(std::move(counts_)); }

 private:
  static constexpr int64_t kMost = int64_t{1} << 60;

  Int64s positions_;
  Int64s first_values_;
  int64_t base_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> starts_{0};
  std::vector<int64_t> counts_;
};

}  // namespace

ChunkChoice choose_chunks(Bytes positions, Bytes first_values, Bytes values, int64_t base) {
  Chosen chosen(positions, first_values, base);
  const Int64s& first = chosen.first_values();
  Int64s wanted(values);
  ChunkChoice choice;
  choice.picks = Block(values.size);
  auto* picks = reinterpret_cast<int64_t*>(choice.picks.data());
  size_t next = 1;     // one after the chunk of the last value
  int64_t shift = 0;   // difference between picks and numbers of values
  int64_t picked = 0;  // number of values in the chunks chosen so far
  int64_t previous = first[0];
  bool any = false;
  for (size_t k = 0; k < wanted.size(); ++k) {
    int64_t value = wanted[k];
    if (value < previous) {
      corrupt("value %lld after value %lld", static_cast<long long>(value), static_cast<long long>(previous));
    }
    previous = value;
    if (!any || value >= first[next]) {
      next = first.first_above(value, next);
      if (next > chosen.num_chunks()) {
        corrupt("value %lld of %lld", static_cast<long long>(value), static_cast<long long>(first[next - 1]));
      }
      any = true;
      chosen.add(next - 1);
      shift = picked - first[next - 1];
      picked += first[next] - first[next - 1];
    }
    picks[k] = value + shift;
  }
  choice.offsets = chosen.offsets();
  choice.lengths = chosen.lengths();
  choice.starts = chosen.starts();
  choice.counts = chosen.counts();
  return choice;
}

RowChoice choose_row_chunks(Bytes positions, Bytes first_values, Bytes first_rows, Bytes ended_rows, Bytes rows,
                            int64_t base) {
  Chosen chosen(positions, first_values, base);
  Int64s first_row(first_rows), ended(ended_rows), wanted(rows);
  if (first_row.size() != chosen.num_chunks() + 1 || ended.size() != first_row.size()) {
    corrupt("rows of %zu and %zu chunks where there are %zu", first_row.size(), ended.size(), chosen.num_chunks() + 1);
  }
  RowChoice choice;
  std::vector<int64_t> begun_rows;
  choice.places = Block(wanted.size() * 24);
  auto* places = reinterpret_cast<int64_t*>(choice.places.data());
  size_t begin = 1, stop = 1;  // one after the chunks in which the last row begins and ends
  size_t behind = 0;           // one after the last chosen chunk
  int64_t previous = 0;
  for (size_t k = 0; k < wanted.size(); ++k) {
    int64_t row = wanted[k];
    if (row < previous) {
      corrupt("row %lld after row %lld", static_cast<long long>(row), static_cast<long long>(previous));
    }
    previous = row;
    begin = first_row.first_above(row, begin);
    int64_t before = first_row[begin - 1];
    if (before < 0 || before > row) {
      corrupt("row %lld in a chunk whose first row is %lld", static_cast<long long>(row),
              static_cast<long long>(before));
    }
    stop = ended.first_above(row, std::max(begin, stop));
    if (stop > chosen.num_chunks()) {
      corrupt("row %lld of %lld", static_cast<long long>(row), static_cast<long long>(ended[ended.size() - 1]));
    }
    for (size_t chunk = std::max(begin - 1, behind); chunk < stop; ++chunk) {
      chosen.add(chunk);
      begun_rows.push_back(Chosen::between(first_row, chunk));
    }
    behind = std::max(behind, stop);
    places[3 * k] = static_cast<int64_t>(chosen.size() - (behind - (begin - 1)));
    places[3 * k + 1] = static_cast<int64_t>(chosen.size() - (behind - (stop - 1)));
    places[3 * k + 2] = row - before;
  }
  choice.offsets = chosen.offsets();
  choice.lengths = chosen.lengths();
  choice.starts = chosen.starts();
  choice.counts = chosen.counts();
  choice.begun_rows = Counts(std::move(begun_rows));
  return choice;
}

namespace {

// Counts the levels that `accept` accepts. The inner count is as narrow as a level, so that the compiler uses vectors.
template <class Accept>
size_t count_levels(const uint8_t* levels, size_t n, Accept accept) {
  constexpr size_t kStep = 1 << 15;
  size_t count = 0;
  for (size_t begin = 0; begin < n; begin += kStep) {
    uint16_t part = 0;
    for (size_t i = begin; i < std::min(begin + kStep, n); ++i) {
      part = static_cast<uint16_t>(part + accept(load<uint16_t>(levels + 2 * i)));
    }
    count += part;
  }
  return count;
}

size_t count_at_most(const uint8_t* levels, size_t n, uint16_t limit) {
  return count_levels(levels, n, [=](uint16_t level) { return level <= limit; });
}

size_t count_equal(const uint8_t* levels, size_t n, uint16_t wanted) {
  return count_levels(levels, n, [=](uint16_t level) { return level == wanted; });
}

}  // namespace

PickedRows pick_rows(Bytes rep, Bytes def, const Counts& num_levels, const Counts& counts, const Counts& begun_rows,
                     Bytes places, uint16_t max_rep, uint16_t max_visible) {
  auto total = static_cast<size_t>(num_levels.total);
  bool has_def = def.size != 0;
  if (rep.size != total * 2 || (has_def && def.size != rep.size)) {
    corrupt("%zu and %zu bytes for %zu levels", rep.size, def.size, total);
  }
  size_t num_chunks = counts.values.size();
  if (num_levels.values.size() != num_chunks || begun_rows.values.size() != num_chunks || places.size % 24 != 0) {
    corrupt("levels of %zu chunks where there are %zu", num_levels.values.size(), num_chunks);
  }
  std::vector<size_t> entry_at(num_chunks + 1);
  std::vector<size_t> value_at(num_chunks + 1);
  for (size_t i = 0; i < num_chunks; ++i) {
    auto n = static_cast<size_t>(num_levels.values[i]);
    entry_at[i + 1] = entry_at[i] + n;
    value_at[i + 1] = value_at[i] + static_cast<size_t>(counts.values[i]);
    size_t visible = has_def ? count_at_most(def.data + 2 * entry_at[i], n, max_visible) : n;
    if (visible != static_cast<size_t>(counts.values[i])) {
      corrupt("levels of chunk %zu describe %zu values where there are %lld", i, visible,
              static_cast<long long>(counts.values[i]));
    }
    size_t begun = count_equal(rep.data + 2 * entry_at[i], n, max_rep);
    if (begun != static_cast<size_t>(begun_rows.values[i])) {
      corrupt("%zu rows begin in chunk %zu where the index has %lld", begun, i,
              static_cast<long long>(begun_rows.values[i]));
    }
  }
  Int64s place(places);
  std::vector<uint16_t> reps, defs;
  std::vector<int64_t> picks;
  reps.reserve(place.size());
  picks.reserve(place.size());
  size_t chunk = SIZE_MAX;  // the chunk that `begun` belongs to
  size_t i = 0, begun = 0, value = 0;
  auto visible = [&](size_t k) { return !has_def || load<uint16_t>(def.data + 2 * k) <= max_visible; };
  auto begins = [&](size_t k) { return load<uint16_t>(rep.data + 2 * k) == max_rep; };
  for (size_t k = 0; k < place.size() / 3; ++k) {
    auto first = static_cast<size_t>(place[3 * k]);
    auto last = static_cast<size_t>(place[3 * k + 1]);
    auto skip = static_cast<size_t>(place[3 * k + 2]);
    if (first > last || last >= num_chunks) {
      corrupt("a row in chunks %zu to %zu of %zu", first, last, num_chunks);
    }
    if (first != chunk || begun > skip) {
      chunk = first;
      i = entry_at[first];
      value = value_at[first];
      begun = 0;
    }
    size_t end = entry_at[last + 1];
    constexpr size_t kStep = 64;
    while (end - i > kStep) {  // skip steps in which the row does not begin
      size_t more = count_equal(rep.data + 2 * i, kStep, max_rep);
      if (begun + more > skip) {
        break;
      }
      begun += more;
      value += has_def ? count_at_most(def.data + 2 * i, kStep, max_visible) : kStep;
      i += kStep;
    }
    for (; i < end && !(begins(i) && begun == skip); ++i) {
      begun += begins(i);
      value += visible(i);
    }
    if (i >= end) {
      corrupt("chunk %zu holds %zu row starts where one more than %zu is needed", first, begun, skip);
    }
    do {
      reps.push_back(load<uint16_t>(rep.data + 2 * i));
      if (has_def) {
        defs.push_back(load<uint16_t>(def.data + 2 * i));
      }
      if (visible(i)) {
        picks.push_back(static_cast<int64_t>(value++));
      }
      ++i;
    } while (i < end && !begins(i));
    ++begun;
  }
  PickedRows result;
  result.rep = Block(reps.size() * 2);
  copy_bytes(result.rep.data(), reps.data(), reps.size() * 2);
  result.def = Block(defs.size() * 2);
  copy_bytes(result.def.data(), defs.data(), defs.size() * 2);
  result.picks = to_block(picks);
  result.num_values = picks.size();
  return result;
}

namespace {

template <class T>
Block pick_words(const Stream& stream, const Counts& counts, Bytes picks) {
  Block out(picks.size / 8 * sizeof(T));
  walk_picks(picks, counts, [&](size_t k, size_t chunk, size_t place) {
    store(out.data() + k * sizeof(T), load<T>(stream.chunk(chunk).data + place * sizeof(T)));
  });
  return out;
}

template <class T>
Block pick_inline_words(const Stream& stream, const Counts& counts, Bytes picks) {
  Block out(picks.size / 8 * sizeof(T));
  size_t current = SIZE_MAX;
  InlineGroup<T> group{};
  walk_picks(picks, counts, [&](size_t k, size_t chunk, size_t place) {
    if (chunk != current) {
      group = open_inline_chunk<T>(stream.chunk(chunk), static_cast<size_t>(counts.values[chunk]), chunk);
      current = chunk;
    }
    store(out.data() + k * sizeof(T), unpack_one<T>(group.packed, group.bits, place));
  });
  return out;
}

template <class T>
VariableValues pick_variable_values(const Stream& stream, const Counts& counts, Bytes picks) {
  for (size_t i = 0; i < stream.size(); ++i) {
    if (static_cast<size_t>(stream.length[i]) / sizeof(T) < static_cast<size_t>(counts.values[i]) + 1) {
      corrupt("chunk %zu has %lld bytes for %lld offsets", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]) + 1);
    }
  }
  VariableValues result;
  result.num_values = picks.size / 8;
  result.offsets = Block((result.num_values + 1) * sizeof(T));
  T* offsets = reinterpret_cast<T*>(result.offsets.data());
  size_t total = 0;
  offsets[0] = 0;
  walk_picks(picks, counts, [&](size_t k, size_t chunk, size_t place) {
    Bytes value = variable_value<T>(stream.chunk(chunk), static_cast<size_t>(counts.values[chunk]), place, chunk);
    total += value.size;
    offsets[k + 1] = static_cast<T>(total);
  });
  if (sizeof(T) == 4 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  result.data = Block(total);
  walk_picks(picks, counts, [&](size_t k, size_t chunk, size_t place) {
    Bytes bytes = stream.chunk(chunk);
    copy_bytes(result.data.data() + offsets[k], bytes.data + load<T>(bytes.data + place * sizeof(T)),
               offsets[k + 1] - offsets[k]);
  });
  return result;
}

}  // namespace

Block pick_fixed(const Stream& stream, const Counts& counts, Bytes picks, size_t width) {
  require_fixed(stream, counts, width);
  switch (width) {
    case 1:
      return pick_words<uint8_t>(stream, counts, picks);
    case 2:
      return pick_words<uint16_t>(stream, counts, picks);
    case 4:
      return pick_words<uint32_t>(stream, counts, picks);
    case 8:
      return pick_words<uint64_t>(stream, counts, picks);
    default: {
      Block out(picks.size / 8 * width);
      walk_picks(picks, counts, [&](size_t k, size_t chunk, size_t place) {
        copy_bytes(out.data() + k * width, stream.chunk(chunk).data + place * width, width);
      });
      return out;
    }
  }
}

Block pick_bits(const Stream& stream, const Counts& counts, Bytes picks) {
  require_same_chunks(stream, counts);
  for (size_t i = 0; i < stream.size(); ++i) {
    if (ceil8(static_cast<size_t>(counts.values[i])) > static_cast<size_t>(stream.length[i])) {
      corrupt("chunk %zu has %lld bytes for %lld bits", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]));
    }
  }
  Block out(ceil8(picks.size / 8));
  BitWriter writer(out.data());
  walk_picks(picks, counts, [&](size_t, size_t chunk, size_t place) {
    writer.append((stream.chunk(chunk).data[place / 8] >> (place % 8)) & 1);
  });
  return out;
}

Block pick_inline(const Stream& stream, const Counts& counts, Bytes picks, unsigned word_bits) {
  require_same_chunks(stream, counts);
  switch (word_bits) {
    case 8:
      return pick_inline_words<uint8_t>(stream, counts, picks);
    case 16:
      return pick_inline_words<uint16_t>(stream, counts, picks);
    case 32:
      return pick_inline_words<uint32_t>(stream, counts, picks);
    case 64:
      return pick_inline_words<uint64_t>(stream, counts, picks);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

VariableValues pick_variable(const Stream& stream, const Counts& counts, Bytes picks, unsigned offset_bits) {
  require_same_chunks(stream, counts);
  return offset_bytes(offset_bits) == 4 ? pick_variable_values<uint32_t>(stream, counts, picks)
                                        : pick_variable_values<uint64_t>(stream, counts, picks);
}

Block pick_levels(const Stream& stream, const Counts& counts, Bytes picks, LevelEncoding encoding) {
  switch (encoding.coding) {
    case LevelCoding::flat:
      return pick_fixed(stream, counts, picks, 2);
    case LevelCoding::bitpacked_inline:
      return pick_inline(stream, counts, picks, 16);
    default: {
      Block levels = decode_levels(stream, counts, encoding);
      Block out(picks.size / 8 * 2);
      walk_picks(picks, counts, [&](size_t k, size_t, size_t) {
        store(out.data() + 2 * k, load<uint16_t>(levels.data() + 2 * load<int64_t>(picks.data + 8 * k)));
      });
      return out;
    }
  }
}

}  // namespace lance
