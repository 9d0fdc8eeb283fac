#include "text/scoring.hpp"

#include <algorithm>
#include <memory>

namespace lance {
namespace {

constexpr size_t kWindow = 4096;  // documents whose scores are summed at a time

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

// The best documents so far. If there is a limit, twice as many are gathered before the worse ones are dropped.
class Best {
 public:
  explicit Best(size_t limit)
      : limit_(limit), room_(limit > SIZE_MAX / 4 ? SIZE_MAX : std::max<size_t>(2 * limit, 64)) {}

  void add(float score, uint32_t document) {
    uint64_t key = key_of(score, document);
    if (key > worst_) {
      return;
    }
    keys_.push_back(key);
    if (keys_.size() >= room_) {
      shrink();
    }
  }

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
  void shrink() {
    std::nth_element(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(limit_ - 1), keys_.end());
    keys_.resize(limit_);
    worst_ = keys_.back();
  }

  size_t limit_;
  size_t room_;
  uint64_t worst_ = UINT64_MAX;
  std::vector<uint64_t> keys_;
};

struct TermCursor {
  SearchTerm term;
  PostingBlock block;
  size_t next_block = 0;
  size_t at = 0;

  // Decodes the next block if the current one is at its end. Returns whether there is a posting.
  bool load_block() {
    while (at == block.size) {
      if (next_block == term.postings->num_blocks()) {
        return false;
      }
      uint64_t least = block.size == 0 ? 0 : uint64_t{block.documents[block.size - 1]} + 1;
      term.postings->decode(next_block++, least, block);
      at = 0;
    }
    return true;
  }
};

float part_of_score(float weight, uint32_t frequency, float norm) {
  auto f = static_cast<float>(frequency);
  return weight * (2.2f * f / (f + norm));
}

LANCE_MULTIVERSION void score_block(const PostingBlock& block, float weight, const float* norms, float* scores) {
  for (size_t i = 0; i < block.size; ++i) {
    auto f = static_cast<float>(block.frequencies[i]);
    scores[i] = weight * (2.2f * f / (f + norms[block.documents[i]]));
  }
}

}  // namespace

ScoredDocuments best_documents(const std::vector<SearchTerm>& terms, Bytes norm_bytes, Bytes allowed,
                               uint32_t required_words, size_t limit) {
  size_t num_documents = norm_bytes.size / 4;
  const auto* norms = reinterpret_cast<const float*>(norm_bytes.data);
  if (allowed.size != 0 && allowed.size != num_documents) {
    corrupt("%zu bytes for %zu documents", allowed.size, num_documents);
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].postings->num_documents() != num_documents || (i > 0 && terms[i].word < terms[i - 1].word)) {
      corrupt("terms of %zu and of %zu documents", terms[i].postings->num_documents(), num_documents);
    }
  }
  Best best(limit);
  if (limit == 0 || required_words > terms.size()) {
    return Best(1).take();
  }
  if (terms.size() == 1) {
    PostingBlock block;
    std::array<float, kMostInBlock> scores;
    uint64_t least = 0;
    for (size_t number = 0; number < terms[0].postings->num_blocks(); ++number) {
      terms[0].postings->decode(number, least, block);
      least = uint64_t{block.documents[block.size - 1]} + 1;
      score_block(block, terms[0].weight, norms, scores.data());
      for (size_t i = 0; i < block.size; ++i) {
        if (allowed.size == 0 || allowed.data[block.documents[i]] != 0) {
          best.add(scores[i], block.documents[i]);
        }
      }
    }
    return best.take();
  }
  std::vector<std::unique_ptr<TermCursor>> cursors;
  for (const SearchTerm& term : terms) {
    cursors.push_back(std::make_unique<TermCursor>());
    cursors.back()->term = term;
  }
  std::vector<float> scores(kWindow);
  std::vector<uint32_t> words(kWindow);        // number of words found in a document in order, plus 1; 0 at first
  std::vector<uint32_t> touched(kWindow + 1);  // one more, because a place is written before it is counted
  while (true) {
    uint64_t start = UINT64_MAX;
    for (auto& cursor : cursors) {
      if (cursor->load_block()) {
        start = std::min(start, uint64_t{cursor->block.documents[cursor->at]});
      }
    }
    if (start == UINT64_MAX) {
      break;
    }
    start -= start % kWindow;
    uint64_t end = start + kWindow;
    size_t num_touched = 0;
    uint32_t word = 0;  // numbers of words begin at 0 without gaps here
    uint32_t last_word = cursors[0]->term.word;
    for (auto& each : cursors) {
      TermCursor& cursor = *each;
      if (cursor.term.word != last_word) {
        last_word = cursor.term.word;
        ++word;
      }
      while (cursor.load_block() && cursor.block.documents[cursor.at] < end) {
        for (; cursor.at < cursor.block.size && cursor.block.documents[cursor.at] < end; ++cursor.at) {
          uint32_t document = cursor.block.documents[cursor.at];
          auto place = static_cast<size_t>(document - start);
          uint32_t found = words[place];
          touched[num_touched] = static_cast<uint32_t>(place);
          num_touched += found == 0;
          found += found == 0;
          words[place] = found + (found == word + 1);
          scores[place] += part_of_score(cursor.term.weight, cursor.block.frequencies[cursor.at], norms[document]);
        }
      }
    }
    for (size_t i = 0; i < num_touched; ++i) {
      size_t place = touched[i];
      auto document = static_cast<uint32_t>(start + place);
      if (words[place] > required_words && (allowed.size == 0 || allowed.data[document] != 0)) {
        best.add(scores[place], document);
      }
      scores[place] = 0;
      words[place] = 0;
    }
  }
  return best.take();
}

}  // namespace lance
