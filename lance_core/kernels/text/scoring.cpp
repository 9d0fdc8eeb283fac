#include "text/scoring.hpp"

#include <algorithm>
#include <limits>
#include <memory>

namespace lance {
namespace {

constexpr size_t kWindow = 4096;       // documents whose scores are summed at a time
constexpr size_t kSmallWindow = 512;   // the same where windows are skipped
constexpr size_t kSkippingShare = 64;  // blocks are skipped if at most one of so many postings is wanted

// Keys of documents and scores that sort like them: a greater score is a smaller key.
uint64_t key_of(float score, uint32_t document) {
  uint32_t bits;
  std::memcpy(&bits, &score, 4);
  bits = (bits & 0x80000000) != 0 ? ~bits : bits | 0x80000000;
  return static_cast<uint64_t>(~bits) << 32 | document;
}

float score_of(uint64_t key) {
  uint32_t bits = ~static_cast<uint32_t>(key >> 32);
  bits = (bits & 0x80000000) != 0 ? bits & 0x7FFFFFFF : ~bits;
  float score;
  std::memcpy(&score, &bits, 4);
  return score;
}

// The best documents so far: a heap if few are wanted, otherwise twice as many, of which the worse half is dropped.
class Best {
 public:
  explicit Best(size_t limit)
      : limit_(limit), is_heap_(limit <= kMostInHeap), room_(limit > SIZE_MAX / 4 ? SIZE_MAX : 2 * limit) {}

  void add(float score, uint32_t document) {
    uint64_t key = key_of(score, document);
    if (key > worst_) {
      return;
    }
    keys_.push_back(key);
    if (is_heap_) {
      std::push_heap(keys_.begin(), keys_.end());
      if (keys_.size() > limit_) {
        std::pop_heap(keys_.begin(), keys_.end());
        keys_.pop_back();
      }
      if (keys_.size() == limit_) {
        set_worst(keys_.front());
      }
    } else if (keys_.size() >= room_) {
      shrink();
    }
  }

  // Whether no document with at most this score can be among the best, if its number is greater than all before.
  bool excludes(float score) const { return score <= least_; }

  ScoredDocuments take() {
    if (keys_.size() > limit_) {
      shrink();
    }
    std::sort(keys_.begin(), keys_.end());
    ScoredDocuments best{Block(4 * keys_.size()), Block(4 * keys_.size())};
    for (size_t i = 0; i < keys_.size(); ++i) {
      store<uint32_t>(best.documents.data() + 4 * i, static_cast<uint32_t>(keys_[i]));
      store<float>(best.scores.data() + 4 * i, score_of(keys_[i]));
    }
    return best;
  }

 private:
  static constexpr size_t kMostInHeap = 1024;

  void set_worst(uint64_t key) {
    worst_ = key;
    least_ = score_of(key);
  }
  void shrink() {
    std::nth_element(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(limit_ - 1), keys_.end());
    keys_.resize(limit_);
    set_worst(keys_.back());
  }

  size_t limit_;
  bool is_heap_;
  size_t room_;
  uint64_t worst_ = UINT64_MAX;
  float least_ = -std::numeric_limits<float>::infinity();
  std::vector<uint64_t> keys_;
};

// Place in a posting list. A block is decoded when a posting of it is asked for.
struct TermCursor {
  SearchTerm term;
  std::shared_ptr<const BlockBounds> bounds;  // null if no block is skipped
  PostingBlock block;
  size_t number = 0;  // of the block
  bool is_decoded = false;
  size_t at = 0;       // in the decoded block
  uint64_t least = 0;  // documents before this one are passed

  // Moves to the next posting, and decodes its block. Returns whether there is one.
  bool load_block() {
    for (; number < term.postings->num_blocks(); ++number, is_decoded = false) {
      decode();
      if (at < block.size) {
        return true;
      }
    }
    return false;
  }

  // Returns a lower bound of the document of the next posting, without decoding; UINT64_MAX if there is none.
  uint64_t next_document() const {
    if (is_decoded && at < block.size) {
      return block.documents[at];
    }
    size_t next = number + is_decoded;
    if (next >= bounds->firsts.size() || least >= term.postings->num_documents()) {
      return UINT64_MAX;
    }
    return std::max(least, uint64_t{bounds->firsts[next]});
  }

  // Returns an upper bound of what the term adds to the score of documents before `end`.
  float greatest_before(uint64_t end) const {
    size_t next = number + (is_decoded && (at == block.size || block.documents[at] >= end));
    float greatest = 0;
    for (; next < bounds->firsts.size() && bounds->firsts[next] < end; ++next) {
      greatest = std::max(greatest, bounds->greatest[next]);
    }
    return term.weight * greatest;
  }

  // Passes all documents before `end`.
  void skip_before(uint64_t end) {
    least = std::max(least, end);
    // A block is skipped if the next block begins before or at the end.
    while (number + 1 < bounds->firsts.size() && bounds->firsts[number + 1] <= end) {
      ++number;
      is_decoded = false;
    }
    if (is_decoded) {
      pass();
    }
  }

  // Returns an upper bound of what the term adds to the score of a document that `skip_before` was called for.
  float greatest_here() const { return number < bounds->greatest.size() ? term.weight * bounds->greatest[number] : 0; }

  // Returns whether the term is in a document that `skip_before` was called for.
  bool is_at(uint32_t document) {
    if (number == bounds->firsts.size() || bounds->firsts[number] > document) {
      return false;
    }
    decode();
    return at < block.size && block.documents[at] == document;
  }

 private:
  void decode() {
    if (!is_decoded) {
      term.postings->decode(number, decoded_end_, block);
      decoded_end_ = uint64_t{block.documents[block.size - 1]} + 1;
      is_decoded = true;
      at = 0;
      pass();
    }
  }

  void pass() {
    if (at < block.size && block.documents[at] < least) {
      const uint32_t* first = block.documents.data();
      at = static_cast<size_t>(std::lower_bound(first + at, first + block.size, least) - first);
    }
  }

  uint64_t decoded_end_ = 0;  // all documents of the blocks that follow are at least this one
};

LANCE_MULTIVERSION void score_block(const PostingBlock& block, float weight, const float* norms, float* scores) {
  for (size_t i = 0; i < block.size; ++i) {
    scores[i] = weight * term_share(block.frequencies[i], norms[block.documents[i]]);
  }
}

ScoredDocuments best_of_one(const SearchTerm& term, const float* norms, const uint8_t* allowed,
                            const BlockBounds* bounds, Best best) {
  PostingBlock block;
  std::array<float, kMostInBlock> scores;
  uint64_t least = 0;
  for (size_t number = 0; number < term.postings->num_blocks(); ++number) {
    if (bounds != nullptr && best.excludes(term.weight * bounds->greatest[number])) {
      continue;
    }
    term.postings->decode(number, least, block);
    least = uint64_t{block.documents[block.size - 1]} + 1;
    score_block(block, term.weight, norms, scores.data());
    for (size_t i = 0; i < block.size; ++i) {
      if (allowed == nullptr || allowed[block.documents[i]] != 0) {
        best.add(scores[i], block.documents[i]);
      }
    }
  }
  return best.take();
}

// Sums of scores for a window of documents.
struct Window {
  explicit Window(size_t size) : scores(size), words(size), touched(size + 1) {}

  // Adds what a term contributes to the documents from `start` to `end`. `word` is the number of its word.
  void add(TermCursor& cursor, uint32_t word, uint64_t start, uint64_t end, const float* norms) {
    while (cursor.load_block() && cursor.block.documents[cursor.at] < end) {
      for (; cursor.at < cursor.block.size && cursor.block.documents[cursor.at] < end; ++cursor.at) {
        uint32_t document = cursor.block.documents[cursor.at];
        auto place = static_cast<size_t>(document - start);
        uint32_t found = words[place];
        touched[num_touched] = static_cast<uint32_t>(place);
        num_touched += found == 0;
        found += found == 0;
        words[place] = found + (found == word + 1);
        scores[place] += cursor.term.weight * term_share(cursor.block.frequencies[cursor.at], norms[document]);
      }
    }
  }

  // Hands the touched documents to `best`, and begins anew.
  void finish(uint64_t start, const uint8_t* allowed, uint32_t required_words, Best& best) {
    for (size_t i = 0; i < num_touched; ++i) {
      size_t place = touched[i];
      auto document = static_cast<uint32_t>(start + place);
      if (words[place] > required_words && (allowed == nullptr || allowed[document] != 0)) {
        best.add(scores[place], document);
      }
      scores[place] = 0;
      words[place] = 0;
    }
    num_touched = 0;
  }

  std::vector<float> scores;
  std::vector<uint32_t> words;    // number of words found in a document in order, plus 1; 0 at first
  std::vector<uint32_t> touched;  // one more than documents, because a place is written before it is counted
  size_t num_touched = 0;
};

// Returns an upper bound of sums of scores that are at most `sum` + `score`. In another order they may be a little
// greater; a sum of one score is exact.
float with_margin(float sum, float score) { return sum == 0 || score == 0 ? sum + score : (sum + score) * 1.00001f; }

// Finds the best documents with any of the terms. Blocks without one of them are not decoded.
//
// In each window, terms that together cannot lift a document among the best are looked up only for documents that
// have another term (the MaxScore algorithm).
void find_with_bounds(std::vector<std::unique_ptr<TermCursor>>& cursors, const float* norms, const uint8_t* allowed,
                      uint32_t required_words, Best& best) {
  Window window(kSmallWindow);
  std::vector<std::pair<float, TermCursor*>> terms;
  std::vector<uint32_t> places;
  std::vector<float> up_to;
  while (true) {
    uint64_t start = UINT64_MAX;
    for (auto& cursor : cursors) {
      start = std::min(start, cursor->next_document());
    }
    if (start == UINT64_MAX) {
      return;
    }
    start -= start % kSmallWindow;
    uint64_t end = start + kSmallWindow;
    terms.clear();
    float all = 0;
    for (auto& cursor : cursors) {
      terms.emplace_back(cursor->greatest_before(end), cursor.get());
      all = with_margin(all, terms.back().first);
    }
    if (best.excludes(all)) {
      for (auto& cursor : cursors) {
        cursor->skip_before(end);
      }
      continue;
    }
    size_t num_small = 0;  // terms that are only looked up
    up_to.clear();
    if (required_words == 0) {
      std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      float sum = 0;
      while (num_small < terms.size() && best.excludes(with_margin(sum, terms[num_small].first))) {
        sum = with_margin(sum, terms[num_small++].first);
        up_to.push_back(sum);
      }
    }
    uint32_t word = 0;  // numbers of words begin at 0 without gaps here
    uint32_t last_word = cursors[0]->term.word;
    for (size_t i = num_small; i < terms.size(); ++i) {
      TermCursor& cursor = *terms[i].second;
      if (required_words != 0 && cursor.term.word != last_word) {
        last_word = cursor.term.word;
        ++word;
      }
      if (cursor.next_document() < end) {
        window.add(cursor, word, start, end, norms);
      }
    }
    if (num_small != 0) {
      places.assign(window.touched.begin(), window.touched.begin() + static_cast<ptrdiff_t>(window.num_touched));
      std::sort(places.begin(), places.end());
      for (size_t i = num_small; i-- > 0;) {
        TermCursor& cursor = *terms[i].second;
        size_t kept = 0;
        for (uint32_t place : places) {
          if (best.excludes(with_margin(window.scores[place], up_to[i]))) {
            continue;
          }
          auto document = static_cast<uint32_t>(start + place);
          cursor.skip_before(document);
          float most = with_margin(cursor.greatest_here(), i == 0 ? 0 : up_to[i - 1]);
          if (best.excludes(with_margin(window.scores[place], most))) {
            continue;
          }
          places[kept++] = place;
          if (cursor.is_at(document)) {
            window.scores[place] +=
                cursor.term.weight * term_share(cursor.block.frequencies[cursor.at], norms[document]);
          }
        }
        places.resize(kept);
        cursor.skip_before(end);
      }
    }
    window.finish(start, allowed, required_words, best);
  }
}

}  // namespace

ScoredDocuments best_documents(const std::vector<SearchTerm>& terms, Bytes norm_bytes, float norm_key, Bytes allowed,
                               uint32_t required_words, size_t limit) {
  size_t num_documents = norm_bytes.size / 4;
  const auto* norms = reinterpret_cast<const float*>(norm_bytes.data);
  const uint8_t* is_allowed = allowed.size == 0 ? nullptr : allowed.data;
  if (allowed.size != 0 && allowed.size != num_documents) {
    corrupt("%zu bytes for %zu documents", allowed.size, num_documents);
  }
  size_t num_postings = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].postings->num_documents() != num_documents || (i > 0 && terms[i].word < terms[i - 1].word)) {
      corrupt("terms of %zu and of %zu documents", terms[i].postings->num_documents(), num_documents);
    }
    num_postings += terms[i].postings->length();
  }
  Best best(limit);
  if (limit == 0 || terms.empty() || required_words > terms.size()) {
    return Best(1).take();
  }
  // With bounds, blocks are skipped that cannot have one of the best documents. Weights below 0 have no bounds.
  bool has_bounds = limit <= num_postings / kSkippingShare &&
                    std::all_of(terms.begin(), terms.end(), [](const SearchTerm& term) { return term.weight >= 0; });
  if (terms.size() == 1) {
    auto bounds = has_bounds ? terms[0].postings->bounds(norms, norm_key) : nullptr;
    return best_of_one(terms[0], norms, is_allowed, bounds.get(), std::move(best));
  }
  std::vector<std::unique_ptr<TermCursor>> cursors;
  for (const SearchTerm& term : terms) {
    cursors.push_back(std::make_unique<TermCursor>());
    cursors.back()->term = term;
    if (has_bounds) {
      cursors.back()->bounds = term.postings->bounds(norms, norm_key);
    }
  }
  if (has_bounds) {
    find_with_bounds(cursors, norms, is_allowed, required_words, best);
    return best.take();
  }
  Window window(kWindow);
  while (true) {
    uint64_t start = UINT64_MAX;
    for (auto& cursor : cursors) {
      if (cursor->load_block()) {
        start = std::min(start, uint64_t{cursor->block.documents[cursor->at]});
      }
    }
    if (start == UINT64_MAX) {
      return best.take();
    }
    start -= start % kWindow;
    uint32_t word = 0;  // numbers of words begin at 0 without gaps here
    uint32_t last_word = cursors[0]->term.word;
    for (auto& cursor : cursors) {
      if (cursor->term.word != last_word) {
        last_word = cursor->term.word;
        ++word;
      }
      window.add(*cursor, word, start, start + kWindow, norms);
    }
    window.finish(start, is_allowed, required_words, best);
  }
}

}  // namespace lance
