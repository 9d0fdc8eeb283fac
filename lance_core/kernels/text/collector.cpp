#include "text/collector.hpp"

#include <algorithm>
#include <cmath>

#include "text/packing.hpp"

namespace lance {
namespace {

constexpr size_t kBlock = 128;
// Share of all occurrences of terms that are gathered at once, and the least number. Each part reads all terms once
// more; all occurrences at once would take as much memory as the terms.
constexpr size_t kParts = 4;
constexpr size_t kLeastGathered = size_t{1} << 18;
// Bytes of posting lists after which no further list is encoded.
constexpr size_t kEncodedBytes = size_t{1} << 20;

template <class T>
Block block_of(const std::vector<T>& values) {
  Block block(values.size() * sizeof(T));
  copy_bytes(block.data(), values.data(), block.size());
  return block;
}

template <class T>
void append(std::vector<uint8_t>& out, T value) {
  out.resize(out.size() + sizeof(T));
  store<T>(out.data() + out.size() - sizeof(T), value);
}

void pack(const uint32_t* values, std::vector<uint8_t>& out) {
  uint32_t all = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    all |= values[i];
  }
  unsigned bits = bit_width(all);
  out.push_back(static_cast<uint8_t>(bits));
  pack_lanes(values, bits, out);
}

void pack_differences(const uint32_t* values, std::vector<uint8_t>& out) {
  uint32_t deltas[kBlock] = {0};
  for (size_t i = 1; i < kBlock; ++i) {
    deltas[i] = values[i] - values[i - 1];
  }
  append<uint32_t>(out, values[0]);
  pack(deltas, out);
}

// Appends the strings of the positions of a document in format 1: their number, full blocks, and the rest.
void append_strings(const uint32_t* positions, size_t count, std::vector<uint8_t>& out, std::vector<int64_t>& ends) {
  append<uint32_t>(out, static_cast<uint32_t>(count));
  ends.push_back(static_cast<int64_t>(out.size()));
  size_t at = 0;
  for (; count - at >= kBlock; at += kBlock) {
    pack_differences(positions + at, out);
    ends.push_back(static_cast<int64_t>(out.size()));
  }
  if (at < count) {
    for (; at < count; ++at) {
      append<uint32_t>(out, positions[at]);
    }
    ends.push_back(static_cast<int64_t>(out.size()));
  }
}

}  // namespace

TermCollector::TermCollector(bool with_positions, unsigned format)
    : with_positions_(with_positions), is_old_(format == 1) {
  if (format != 1 && format != 2) {
    corrupt("format %u of posting lists", format);
  }
}

Block TermCollector::add(Bytes words, Bytes positions, Bytes ends, Bytes terms) {
  size_t num_words = words.size / 4, num_terms = terms.size / 4;
  if (is_sorted_ || (with_positions_ && positions.size != words.size)) {
    corrupt("%zu bytes of positions for %zu words", positions.size, num_words);
  }
  Block counts(ends.size / 2);
  size_t at = 0;
  for (size_t document = 0; document < ends.size / 8; ++document) {
    auto end = load<int64_t>(ends.data + 8 * document);
    if (end < static_cast<int64_t>(at) || end > static_cast<int64_t>(num_words)) {
      corrupt("document %zu ends at word %lld of %zu", document, static_cast<long long>(end), num_words);
    }
    size_t before = terms_.size();
    for (; at < static_cast<size_t>(end); ++at) {
      uint32_t word = load<uint32_t>(words.data + 4 * at);
      if (word >= num_terms) {
        corrupt("word %u of %zu", word, num_terms);
      }
      auto term = load<int32_t>(terms.data + 4 * word);
      if (term >= 0) {
        terms_.push_back(static_cast<uint32_t>(term));
        if (with_positions_) {
          positions_.push_back(load<uint32_t>(positions.data + 4 * at));
        }
      }
    }
    store<uint32_t>(counts.data() + 4 * document, static_cast<uint32_t>(terms_.size() - before));
    if (terms_.size() > before) {
      if (ends_.size() == UINT32_MAX) {
        corrupt("more than %zu documents", ends_.size());
      }
      ends_.push_back(terms_.size());
    }
  }
  return counts;
}

void TermCollector::sort(Bytes order, Bytes ranks) {
  size_t num_terms = ranks.size / 4, num_documents = ends_.size();
  if (is_sorted_ || (order.size != 0 && order.size / 4 != num_documents)) {
    corrupt("an order of %zu documents for %zu", order.size / 4, num_documents);
  }
  is_sorted_ = true;
  term_starts_.assign(num_terms + 1, 0);
  for (uint32_t& term : terms_) {
    uint32_t rank = term < num_terms ? load<uint32_t>(ranks.data + 4 * term) : UINT32_MAX;
    if (rank >= num_terms) {
      corrupt("term %u of %zu", term, num_terms);
    }
    term = rank;
    ++term_starts_[rank + 1];
  }
  for (size_t term = 0; term < num_terms; ++term) {
    term_starts_[term + 1] += term_starts_[term];
  }
  norms_.resize(num_documents);
  float average = static_cast<float>(terms_.size()) / static_cast<float>(num_documents);
  for (size_t document = 0; document < num_documents; ++document) {
    size_t old = order.size == 0 ? document : load<uint32_t>(order.data + 4 * document);
    if (old >= num_documents) {
      corrupt("document %zu of %zu", old, num_documents);
    }
    if (order.size != 0) {
      order_.push_back(static_cast<uint32_t>(old));
    }
    size_t start = old == 0 ? 0 : ends_[old - 1];
    norms_[document] = 1.2f * (0.25f + 0.75f * static_cast<float>(ends_[old] - start) / average);
  }
}

void TermCollector::gather(size_t first) {
  if (first >= first_gathered_ && first < end_gathered_) {
    return;
  }
  uint64_t start = term_starts_[first];
  uint64_t most = std::max(terms_.size() / kParts, kLeastGathered);
  size_t end = first + 1;
  while (end + 1 < term_starts_.size() && term_starts_[end + 1] - start <= most) {
    ++end;
  }
  first_gathered_ = first;
  end_gathered_ = end;
  documents_.resize(term_starts_[end] - start);
  gathered_positions_.resize(with_positions_ ? documents_.size() : 0);
  std::vector<uint64_t> next(end - first);
  for (size_t term = first; term < end; ++term) {
    next[term - first] = term_starts_[term] - start;
  }
  for (size_t document = 0; document < ends_.size(); ++document) {
    size_t old = order_.empty() ? document : order_[document];
    for (size_t at = old == 0 ? 0 : ends_[old - 1]; at < ends_[old]; ++at) {
      size_t term = size_t{terms_[at]} - first;
      if (term >= next.size()) {
        continue;
      }
      uint64_t to = next[term]++;
      documents_[to] = static_cast<uint32_t>(document);
      if (with_positions_) {
        gathered_positions_[to] = positions_[at];
      }
    }
  }
}

EncodedPostings TermCollector::encode(size_t first, size_t end) {
  size_t num_terms = term_starts_.empty() ? 0 : term_starts_.size() - 1;
  if (first > end || end > num_terms) {
    corrupt("terms [%zu, %zu) of %zu", first, end, num_terms);
  }
  if (first < end) {
    gather(first);
    end = std::min(end, end_gathered_);
  }
  std::vector<uint8_t> data, stream;
  std::vector<int64_t> block_ends, position_ends, string_ends;
  std::vector<int32_t> list_ends;
  std::vector<float> bounds;
  std::vector<uint32_t> lengths, position_starts, documents, frequencies, moves;
  for (size_t term = first; term < end && data.size() + stream.size() < kEncodedBytes; ++term) {
    documents.clear();
    frequencies.clear();
    uint64_t gathered = term_starts_[first_gathered_];
    size_t start = term_starts_[term] - gathered;
    for (size_t at = start; at < term_starts_[term + 1] - gathered; ++at) {
      if (documents.empty() || documents.back() != documents_[at]) {
        documents.push_back(documents_[at]);
        frequencies.push_back(0);
      }
      ++frequencies.back();
    }
    auto n = static_cast<float>(documents.size());
    float scale = 2.2f * std::log((static_cast<float>(norms_.size()) - n + 0.5f) / (n + 0.5f) + 1.0f);
    float list_bound = 0;
    size_t stream_start = stream.size();
    for (size_t from = 0; from < documents.size(); from += kBlock) {
      size_t until = std::min(from + kBlock, documents.size());
      float bound = 0;
      for (size_t i = from; i < until; ++i) {
        auto f = static_cast<float>(frequencies[i]);
        bound = std::max(bound, f / (f + norms_[documents[i]]));
      }
      bound *= scale;
      list_bound = std::max(list_bound, bound);
      append<float>(data, bound);
      if (until - from == kBlock) {
        pack_differences(documents.data() + from, data);
        pack(frequencies.data() + from, data);
      } else if (is_old_) {
        for (size_t i = from; i < until; ++i) {
          append<uint32_t>(data, documents[i]);
        }
        for (size_t i = from; i < until; ++i) {
          append<uint32_t>(data, frequencies[i]);
        }
      } else {
        append_varint(data, documents[from]);
        for (size_t i = from + 1; i < until; ++i) {
          append_varint(data, documents[i] - documents[i - 1]);
        }
        for (size_t i = from; i < until; ++i) {
          append_varint(data, frequencies[i]);
        }
      }
      block_ends.push_back(static_cast<int64_t>(data.size()));
      if (with_positions_ && is_old_) {
        for (size_t i = from; i < until; start += frequencies[i++]) {
          append_strings(gathered_positions_.data() + start, frequencies[i], stream, position_ends);
          string_ends.push_back(static_cast<int64_t>(position_ends.size()));
        }
      } else if (with_positions_) {
        position_starts.push_back(static_cast<uint32_t>(stream.size() - stream_start));
        moves.clear();
        for (size_t i = from; i < until; ++i) {
          uint32_t last = 0;
          for (uint32_t j = 0; j < frequencies[i]; ++j, ++start) {
            moves.push_back(gathered_positions_[start] - last);
            last = gathered_positions_[start];
          }
        }
        size_t at = 0;
        for (; moves.size() - at >= kBlock; at += kBlock) {
          pack(moves.data() + at, stream);
        }
        for (; at < moves.size(); ++at) {
          append_varint(stream, moves[at]);
        }
      }
    }
    if (std::max(block_ends.size(), position_ends.size()) > INT32_MAX ||
        (!is_old_ && stream.size() - stream_start > UINT32_MAX)) {
      throw OffsetOverflow("posting lists of too many terms at once");
    }
    list_ends.push_back(static_cast<int32_t>(block_ends.size()));
    if (!is_old_) {
      position_ends.push_back(static_cast<int64_t>(stream.size()));
    }
    bounds.push_back(list_bound);
    lengths.push_back(static_cast<uint32_t>(documents.size()));
  }
  return {block_of(data),   block_of(block_ends),    block_of(list_ends),       block_of(bounds),     block_of(lengths),
          block_of(stream), block_of(position_ends), block_of(position_starts), block_of(string_ends)};
}

}  // namespace lance
