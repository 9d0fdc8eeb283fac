// Words of texts: splitting by the rules of an index, and a number for each distinct word.
#pragma once

#include "base/variable.hpp"

namespace lance {

enum class Splitting { letters, blanks, whole, ngrams };

struct WordRules {
  Splitting splitting = Splitting::letters;
  size_t min_ngram = 3;  // in characters
  size_t max_ngram = 3;
  bool prefixes_only = false;
  size_t max_bytes = SIZE_MAX;  // words of this length and longer ones are left out
  bool lower_ascii = false;     // write the letters A to Z as a to z
};

// Words of some texts, one after the other.
struct FoundWords {
  std::vector<uint32_t> words;      // number of each word
  std::vector<uint32_t> positions;  // number of each word in its document, words counted that are left out
  std::vector<int64_t> ends;        // end of each document in `words`
};

// Splits texts, and numbers the distinct words in the order in which they first occur.
class WordReader {
 public:
  // `letters` is a bitmap of all code points: those that words are made of. Only Splitting::letters needs it.
  WordReader(WordRules rules, Bytes letters);

  // Reads the texts between `num_texts + 1` offsets of 32 or 64 bits into `data`. `document_ends` has the end of each
  // document, which is a run of texts, as 64-bit numbers; no address means that each text is a document.
  FoundWords read(Bytes data, Bytes offsets, unsigned offset_bits, size_t num_texts, Bytes document_ends);

  size_t num_words() const { return ends_.size(); }
  size_t num_bytes() const { return text_.size() + 16 * ends_.size() + 4 * slots_.size(); }
  // Returns the words from number `first` on.
  VariableValues words(size_t first) const;

 private:
  void read_text(Bytes text, FoundWords& found, uint32_t& position);
  void split_letters(Bytes text, FoundWords& found, uint32_t& position);
  void split_blanks(Bytes text, FoundWords& found, uint32_t& position);
  void split_ngrams(Bytes text, FoundWords& found);
  void add(Bytes word, uint32_t position, FoundWords& found);
  uint32_t number_of(Bytes word);
  void grow();

  WordRules rules_;
  std::vector<uint8_t> letters_;
  std::vector<uint8_t> text_;      // the distinct words, one after the other
  std::vector<size_t> ends_;       // end of each distinct word in `text_`
  std::vector<uint64_t> hashes_;   // of each distinct word
  std::vector<uint32_t> slots_;    // open hash table: number of a word + 1, or 0
  std::vector<uint8_t> lowered_;   // the current word
  std::vector<size_t> character_;  // starts of the characters of the current text
};

}  // namespace lance
