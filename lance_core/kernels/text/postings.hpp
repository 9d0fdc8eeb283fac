// Posting lists of full text indices: numbers of documents with the frequency of a term in each, in blocks.
//
// A full block has 128 or 256 packed values, a last block has variable-length or 32-bit integers.
// Source: docs/format.md, "Index files".
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

constexpr size_t kMostInBlock = 256;

struct PostingBlock {
  size_t size = 0;
  std::array<uint32_t, kMostInBlock> documents;
  std::array<uint32_t, kMostInBlock> frequencies;
};

// Facts about the blocks of a posting list that a search has before it decodes them.
struct BlockBounds {
  float key = 0;                 // names the norms that the bounds are for
  std::vector<uint32_t> firsts;  // first document of each block
  std::vector<float> greatest;   // greatest f * 2.2 / (f + norm) in each block
};

// One posting list. Blocks are decoded one by one; each block is checked when it is decoded.
class PostingList {
 public:
  // `ends` are the ends of the blocks in `data`, as 64-bit numbers. Documents are numbered below `num_documents`.
  PostingList(Bytes data, Bytes ends, size_t length, size_t num_documents, size_t block_size, bool fixed_tail);

  size_t length() const { return length_; }
  size_t num_blocks() const { return ends_.size() / 8; }
  size_t num_documents() const { return num_documents_; }
  size_t block_size() const { return block_size_; }
  // Decodes a block. All its documents are at least `least`.
  void decode(size_t block, uint64_t least, PostingBlock& out) const;
  // Returns the bounds of all blocks. The first call decodes all blocks, later calls with the same key none.
  // `norms` has the norm of each document.
  std::shared_ptr<const BlockBounds> bounds(const float* norms, float key) const;

 private:
  Bytes data_;
  std::vector<uint8_t> ends_;
  size_t length_;
  size_t num_documents_;
  size_t block_size_;
  bool fixed_tail_;

  struct Known {
    std::mutex mutex;
    std::shared_ptr<const BlockBounds> bounds;
  };
  std::unique_ptr<Known> known_ = std::make_unique<Known>();
};

// Share of a term in the score of a document, divided by the weight of the term.
inline float term_share(uint32_t frequency, float norm) {
  auto f = static_cast<float>(frequency);
  return 2.2f * f / (f + norm);
}

struct Postings {
  Block documents;    // u32, ascending
  Block frequencies;  // u32
};
Postings decode_postings(const PostingList& list);

// Returns the positions of all documents of a list, one after the other: as many as their frequencies say.
// `block_starts` are u32 numbers, the start of each posting block's positions in `data`.
Block decode_positions(Bytes data, Bytes block_starts, Bytes frequencies, size_t block_size, bool packed);
// Decodes positions in an array of byte strings per document: a count, then blocks. `ends` are the ends of the
// strings in `data`, `document_ends` the ends of the documents in `ends`; both are 64-bit numbers.
Block decode_position_lists(Bytes data, Bytes ends, Bytes document_ends, Bytes frequencies);

// One word of a phrase in the documents that have all words of it.
struct PhraseWord {
  Bytes documents;    // u32, ascending
  Bytes frequencies;  // u32
  Bytes positions;    // u32
  int64_t place;      // position in the phrase
};
// Returns the documents with all words in the places of the phrase, u32. Between two words that follow each other in
// the phrase may be up to `slop` positions more.
Block match_phrase(const std::vector<PhraseWord>& words, int64_t slop);

}  // namespace lance
