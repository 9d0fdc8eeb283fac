#include "text/postings.hpp"

#include <algorithm>

#include "text/packing.hpp"

namespace lance {
namespace {

void check_bits(unsigned bits) {
  if (bits > 32) {
    corrupt("packed values of %u bits", bits);
  }
}

LANCE_MULTIVERSION void unpack_128(const uint8_t* packed, unsigned bits, uint32_t* out) {
  unpack_lanes<4>(packed, bits, out);
}
LANCE_MULTIVERSION void unpack_256(const uint8_t* packed, unsigned bits, uint32_t* out) {
  unpack_lanes<8>(packed, bits, out);
}

Bytes after(Bytes data, size_t bytes) { return data.slice(bytes, data.size < bytes ? 0 : data.size - bytes); }

void unpack_values(Bytes packed, size_t n, unsigned bits, uint32_t* out) {
  const uint8_t* data = packed.slice(0, packed_lane_bytes(n, bits)).data;
  n == 128 ? unpack_128(data, bits, out) : unpack_256(data, bits, out);
}

// Unpacks a width in bits and the `n` values behind it. Returns the bytes that follow.
Bytes unpack(Bytes data, size_t n, uint32_t* out, unsigned& bits) {
  bits = data.slice(0, 1).data[0];
  check_bits(bits);
  unpack_values(after(data, 1), n, bits, out);
  return after(data, 1 + packed_lane_bytes(n, bits));
}

// Unpacks 256 values of which some have more bits than the others: behind the packed values is a list of positions and
// of the bits that are missing there.
void unpack_with_exceptions(Bytes data, uint32_t* out) {
  unsigned bits = data.slice(0, 2).data[0], exceptions = data.data[1];
  check_bits(bits);
  unpack_values(after(data, 2), kMostInBlock, bits, out);
  Bytes rest = after(data, 2 + packed_lane_bytes(kMostInBlock, bits));
  for (unsigned i = 0; i < exceptions; ++i) {
    uint8_t position = rest.slice(0, 1).data[0];
    rest = after(rest, 1);
    VarintReader reader(rest);
    uint64_t high = reader.next();
    rest = after(rest, reader.position());
    out[position] |= static_cast<uint32_t>(high << bits);
  }
}

}  // namespace

PostingList::PostingList(Bytes data, Bytes ends, size_t length, size_t num_documents, size_t block_size,
                         bool fixed_tail)
    : data_(data),
      ends_(ends.data, ends.data + ends.size),
      length_(length),
      num_documents_(num_documents),
      block_size_(block_size),
      fixed_tail_(fixed_tail) {
  if (block_size != 128 && block_size != 256) {
    corrupt("posting blocks of %zu documents", block_size);
  }
  if (num_blocks() != (length + block_size - 1) / block_size) {
    corrupt("%zu blocks for %zu postings", num_blocks(), length);
  }
  int64_t last = 0;
  for (size_t block = 0; block < num_blocks(); ++block) {
    auto end = load<int64_t>(ends_.data() + 8 * block);
    if (end < last || end > static_cast<int64_t>(data.size)) {
      corrupt("posting block %zu ends at %lld of %zu bytes", block, static_cast<long long>(end), data.size);
    }
    last = end;
  }
}

void PostingList::decode(size_t block, uint64_t least, PostingBlock& out) const {
  size_t start = block == 0 ? 0 : static_cast<size_t>(load<int64_t>(ends_.data() + 8 * (block - 1)));
  Bytes rest = data_.slice(start, static_cast<size_t>(load<int64_t>(ends_.data() + 8 * block)) - start);
  if (block_size_ == 128) {
    rest = after(rest, 4);  // the bound of the scores
  }
  size_t n = std::min(block_size_, length_ - block * block_size_);
  out.size = n;
  uint32_t* documents = out.documents.data();
  uint32_t* frequencies = out.frequencies.data();
  if (n < block_size_ && fixed_tail_) {
    copy_bytes(documents, rest.slice(0, 4 * n).data, 4 * n);
    copy_bytes(frequencies, rest.slice(4 * n, 4 * n).data, 4 * n);
    for (size_t i = 0; i < n; ++i) {
      if (documents[i] < least || documents[i] >= num_documents_) {
        corrupt("document %u of %zu in posting block %zu", documents[i], num_documents_, block);
      }
      least = uint64_t{documents[i]} + 1;
    }
    return;
  }
  uint64_t document;
  if (n < block_size_) {
    VarintReader reader(rest);
    document = reader.next();
    documents[0] = 0;
    for (size_t i = 1; i < n; ++i) {
      documents[i] = reader.next();
    }
    for (size_t i = 0; i < n; ++i) {
      frequencies[i] = reader.next();
    }
  } else {
    document = load<uint32_t>(rest.slice(0, 4).data);
    unsigned bits;
    rest = unpack(after(rest, 4), n, documents, bits);
    if (block_size_ == 128) {
      unpack(rest, n, frequencies, bits);
    } else {
      unpack_with_exceptions(rest, frequencies);
    }
  }
  if (document < least) {
    corrupt("posting block %zu begins with document %llu", block, static_cast<unsigned long long>(document));
  }
  for (size_t i = 0; i < n; ++i) {
    document += documents[i];
    documents[i] = static_cast<uint32_t>(document);
  }
  // The sum has 64 bits, so if the last document is in range, all are.
  if (document >= num_documents_) {
    corrupt("document %llu of %zu in posting block %zu", static_cast<unsigned long long>(document), num_documents_,
            block);
  }
}

std::shared_ptr<const BlockBounds> PostingList::bounds(const float* norms, float key) const {
  {
    std::lock_guard lock(known_->mutex);
    if (known_->bounds != nullptr && known_->bounds->key == key) {
      return known_->bounds;
    }
  }
  auto bounds = std::make_shared<BlockBounds>();
  bounds->key = key;
  PostingBlock block;
  uint64_t least = 0;
  for (size_t i = 0; i < num_blocks(); ++i) {
    decode(i, least, block);
    float greatest = 0;
    for (size_t j = 0; j < block.size; ++j) {
      greatest = std::max(greatest, term_share(block.frequencies[j], norms[block.documents[j]]));
    }
    bounds->firsts.push_back(block.documents[0]);
    bounds->greatest.push_back(greatest);
    least = uint64_t{block.documents[block.size - 1]} + 1;
  }
  std::lock_guard lock(known_->mutex);
  known_->bounds = bounds;
  return bounds;
}

Postings decode_postings(const PostingList& list) {
  Postings postings{Block(4 * list.length()), Block(4 * list.length())};
  PostingBlock block;
  uint64_t least = 0;
  size_t done = 0;
  for (size_t i = 0; i < list.num_blocks(); ++i) {
    list.decode(i, least, block);
    copy_bytes(postings.documents.data() + 4 * done, block.documents.data(), 4 * block.size);
    copy_bytes(postings.frequencies.data() + 4 * done, block.frequencies.data(), 4 * block.size);
    done += block.size;
    least = uint64_t{block.documents[block.size - 1]} + 1;
  }
  return postings;
}

namespace {

constexpr uint64_t kMostPositions = uint64_t{1} << 32;

uint64_t sum_of(Bytes frequencies, size_t first, size_t n) {
  uint64_t sum = 0;
  for (size_t i = first; i < first + n; ++i) {
    sum += load<uint32_t>(frequencies.data + 4 * i);
  }
  return sum;
}

}  // namespace

Block decode_positions(Bytes data, Bytes block_starts, Bytes frequencies, size_t block_size, bool packed) {
  size_t length = frequencies.size / 4, num_blocks = block_starts.size / 4;
  if (block_size == 0 || num_blocks != (length + block_size - 1) / block_size) {
    corrupt("%zu blocks of positions for %zu postings", num_blocks, length);
  }
  uint64_t total = sum_of(frequencies, 0, length);
  if (total > 8 * uint64_t{data.size} * 128 + kMostInBlock || total > kMostPositions) {
    corrupt("%llu positions in %zu bytes", static_cast<unsigned long long>(total), data.size);
  }
  Block out(4 * static_cast<size_t>(total));
  auto* to = reinterpret_cast<uint32_t*>(out.data());
  for (size_t block = 0; block < num_blocks; ++block) {
    size_t start = load<uint32_t>(block_starts.data + 4 * block);
    size_t end = block + 1 < num_blocks ? load<uint32_t>(block_starts.data + 4 * (block + 1)) : data.size;
    if (end < start) {
      corrupt("positions of block %zu at [%zu, %zu)", block, start, end);
    }
    Bytes rest = data.slice(start, end - start);
    size_t first = block * block_size, n = std::min(block_size, length - first);
    auto left = static_cast<size_t>(sum_of(frequencies, first, n));
    uint32_t* at = to;
    for (; packed && left >= 128; left -= 128, at += 128) {
      unsigned bits;
      rest = unpack(rest, 128, at, bits);
    }
    VarintReader reader(rest);
    for (; left > 0; --left) {
      *at++ = reader.next();
    }
    // Each document begins with a position, and goes on with differences.
    for (size_t i = first; i < first + n; ++i) {
      uint32_t frequency = load<uint32_t>(frequencies.data + 4 * i), position = 0;
      for (uint32_t j = 0; j < frequency; ++j) {
        position += *to;
        *to++ = position;
      }
    }
  }
  return out;
}

Block decode_position_lists(Bytes data, Bytes ends, Bytes document_ends, Bytes frequencies) {
  size_t length = frequencies.size / 4, num_strings = ends.size / 8;
  if (document_ends.size / 8 != length) {
    corrupt("positions of %zu documents for %zu postings", document_ends.size / 8, length);
  }
  uint64_t total = sum_of(frequencies, 0, length);
  if (total > 8 * uint64_t{data.size} * 128 + kMostInBlock || total > kMostPositions) {
    corrupt("%llu positions in %zu bytes", static_cast<unsigned long long>(total), data.size);
  }
  Block out(4 * static_cast<size_t>(total));
  auto* to = reinterpret_cast<uint32_t*>(out.data());
  size_t string = 0;
  auto next = [&](size_t end) {
    size_t from = string == 0 ? 0 : static_cast<size_t>(load<int64_t>(ends.data + 8 * (string - 1)));
    if (string >= end) {
      corrupt("positions of a document end after %zu strings", string);
    }
    auto until = static_cast<size_t>(load<int64_t>(ends.data + 8 * string++));
    if (until < from) {
      corrupt("a string of positions at [%zu, %zu)", from, until);
    }
    return data.slice(from, until - from);
  };
  for (size_t i = 0; i < length; ++i) {
    auto end = static_cast<size_t>(load<int64_t>(document_ends.data + 8 * i));
    if (end > num_strings) {
      corrupt("positions of document %zu end at string %zu of %zu", i, end, num_strings);
    }
    size_t left = load<uint32_t>(frequencies.data + 4 * i);
    uint32_t count = load<uint32_t>(next(end).slice(0, 4).data);
    if (count != left) {
      corrupt("%u positions for a frequency of %zu", count, left);
    }
    for (; left >= 128; left -= 128) {
      Bytes block = next(end);
      uint32_t position = load<uint32_t>(block.slice(0, 4).data);
      unsigned bits;
      unpack(after(block, 4), 128, to, bits);
      for (size_t j = 0; j < 128; ++j) {
        position += *to;
        *to++ = position;
      }
    }
    if (left > 0) {
      copy_bytes(to, next(end).slice(0, 4 * left).data, 4 * left);
      to += left;
    }
    if (string != end) {
      corrupt("positions of document %zu have %zu strings too many", i, end - string);
    }
  }
  return out;
}

namespace {

// Cursor over the documents of a word, with the positions of the current document.
struct WordCursor {
  const uint32_t* documents;
  const uint32_t* frequencies;
  const uint32_t* positions;
  size_t length;
  size_t at = 0;
  int64_t place;

  // Moves to the first document that is at least `document`.
  bool advance(uint32_t document) {
    while (at < length && documents[at] < document) {
      positions += frequencies[at++];
    }
    return at < length;
  }
};

// Whether words have positions that follow each other, `place` subtracted, with at most `slop` between two.
bool has_phrase(const std::vector<WordCursor*>& words, int64_t slop, std::vector<size_t>& starts) {
  starts.assign(words.size(), 0);
  auto relative = [&](size_t word, size_t i) { return int64_t{words[word]->positions[i]} - words[word]->place; };
  const WordCursor& first = *words[0];
  for (size_t i = 0; i < first.frequencies[first.at]; ++i) {
    // The smallest position of each word that can follow is not always the right one: take all that can.
    int64_t low = relative(0, i), high = low;
    bool found = true;
    for (size_t word = 1; word < words.size() && found; ++word) {
      size_t n = words[word]->frequencies[words[word]->at];
      size_t& from = starts[word];
      while (from < n && relative(word, from) < low) {
        ++from;
      }
      size_t last = from;
      found = from < n && relative(word, from) <= high + slop;
      if (found) {
        while (last + 1 < n && relative(word, last + 1) <= high + slop) {
          ++last;
        }
        low = relative(word, from);
        high = relative(word, last);
      }
    }
    if (found) {
      return true;
    }
  }
  return false;
}

}  // namespace

Block match_phrase(const std::vector<PhraseWord>& given, int64_t slop) {
  std::vector<WordCursor> cursors;
  for (const PhraseWord& word : given) {
    size_t length = word.documents.size / 4;
    if (word.frequencies.size != word.documents.size ||
        sum_of(word.frequencies, 0, length) != word.positions.size / 4) {
      corrupt("%zu bytes of positions for %zu postings", word.positions.size, length);
    }
    auto numbers = [](Bytes bytes) { return reinterpret_cast<const uint32_t*>(bytes.data); };
    cursors.push_back(
        {numbers(word.documents), numbers(word.frequencies), numbers(word.positions), length, 0, word.place});
  }
  std::vector<uint32_t> found;
  std::vector<size_t> starts;
  std::vector<WordCursor*> by_place;
  for (WordCursor& cursor : cursors) {
    by_place.push_back(&cursor);
  }
  std::stable_sort(by_place.begin(), by_place.end(),
                   [](const WordCursor* a, const WordCursor* b) { return a->place < b->place; });
  uint32_t document = 0;
  bool more = !cursors.empty();
  while (more) {
    uint32_t wanted = document;
    for (WordCursor& cursor : cursors) {
      more = more && cursor.advance(wanted);
      if (!more) {
        break;
      }
      wanted = cursor.documents[cursor.at];
    }
    if (!more) {
      break;
    }
    if (std::all_of(cursors.begin(), cursors.end(),
                    [&](const WordCursor& cursor) { return cursor.documents[cursor.at] == wanted; })) {
      if (has_phrase(by_place, slop, starts)) {
        found.push_back(wanted);
      }
      if (wanted == UINT32_MAX) {
        break;
      }
      document = wanted + 1;
    } else {
      document = wanted;
    }
  }
  Block out(4 * found.size());
  copy_bytes(out.data(), found.data(), 4 * found.size());
  return out;
}

}  // namespace lance
