// Scores of documents: the sum over the terms of a query of weight * f * 2.2 / (f + norm of the document), where f is
// the frequency of the term in the document.
#pragma once

#include "text/postings.hpp"

namespace lance {

struct SearchTerm {
  const PostingList* postings;
  float weight;
  uint32_t word;  // the word of the query that the term stands for; ascending
};

struct ScoredDocuments {
  Block documents;  // u32
  Block scores;     // f32
};

// Returns the best documents, best first; documents of one score in ascending order.
//
// `norms` has an f32 of each document; equal keys mean equal norms. `allowed` has a byte of each document that is 0 for
// documents to leave out; it is empty if none is left out. If `required_words` is not 0, documents need a term of each
// of so many words.
ScoredDocuments best_documents(const std::vector<SearchTerm>& terms, Bytes norms, float norm_key, Bytes allowed,
                               uint32_t required_words, size_t limit);

}  // namespace lance
