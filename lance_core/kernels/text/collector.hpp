// Terms of documents, gathered in memory and turned into posting lists.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Posting lists of consecutive terms, as columns of an index file.
struct EncodedPostings {
  Block data;             // the blocks of all lists
  Block block_ends;       // 64-bit
  Block list_ends;        // number of blocks up to the end of each list, 32-bit
  Block bounds;           // f32, upper bound of the scores of each list
  Block lengths;          // u32, documents of each list
  Block positions;        // the streams of all lists; in format 1 the strings of all documents
  Block position_ends;    // 64-bit, end of each stream, in format 1 of each string
  Block position_starts;  // u32, start of the positions of each block in its stream
  Block string_ends;      // 64-bit, number of strings up to the end of each document, in format 1
};

class TermCollector {
 public:
  // `format` is 1 or 2.
  TermCollector(bool with_positions, unsigned format);

  // Adds documents. `words`, `positions` and `ends` are those of FoundWords, `terms` has the i32 number of the term of
  // each word, or -1 for words that are left out. Returns the u32 number of terms of each document. Documents without
  // terms get no number; the others are numbered in order.
  Block add(Bytes words, Bytes positions, Bytes ends, Bytes terms);

  size_t num_documents() const { return ends_.size(); }
  size_t num_bytes() const { return 4 * (terms_.size() + positions_.size()) + 8 * ends_.size(); }

  // Sorts by term. `order` has the u32 numbers of the documents in their new order, or is empty if it is the present
  // one; `ranks` has the new number of each term. Nothing can be added afterwards.
  void sort(Bytes order, Bytes ranks);
  // Returns the lists of the terms [first, end), by their new numbers: of fewer terms, at least one, if their lists are
  // large. Ascending calls are fastest.
  EncodedPostings encode(size_t first, size_t end);

 private:
  // Puts the occurrences of a term in `documents_`, with those of as many next terms as have room.
  void gather(size_t first);

  bool with_positions_;
  bool is_old_;
  bool is_sorted_ = false;
  std::vector<uint32_t> terms_;
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> ends_;  // of the documents in `terms_`
  // After sorting:
  std::vector<uint32_t> order_;        // the documents in their new order; empty if it is the present one
  std::vector<uint64_t> term_starts_;  // of the occurrences of each term among those of all terms
  std::vector<float> norms_;           // of each document
  // The vectors hold the occurrences of the terms [first_gathered_, end_gathered_), term by term.
  size_t first_gathered_ = 0, end_gathered_ = 0;
  std::vector<uint32_t> documents_;           // of each occurrence
  std::vector<uint32_t> gathered_positions_;  // of each occurrence
};

}  // namespace lance
