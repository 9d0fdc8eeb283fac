#include "text/words.hpp"

#include <algorithm>

namespace lance {
namespace {

constexpr size_t kFirstSlots = 1024;

// Returns the code point that starts at `at`, and moves `at` behind it. Bytes that are no UTF-8 count one by one.
uint32_t next_character(Bytes text, size_t& at) {
  uint8_t first = text.data[at++];
  if (first < 0x80) {
    return first;
  }
  size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  if (more == 0 || more > text.size - at) {
    return 0xFFFD;
  }
  uint32_t value = first & (0x3F >> more);
  for (size_t i = 0; i < more; ++i) {
    if ((text.data[at + i] & 0xC0) != 0x80) {
      return 0xFFFD;
    }
    value = value << 6 | (text.data[at + i] & 0x3F);
  }
  at += more;
  return value;
}

bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\f' || byte == '\r'; }

uint64_t hash_of(Bytes word) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  uint64_t hash = word.size * kFactor;
  size_t at = 0;
  for (; at + 8 <= word.size; at += 8) {
    hash = (hash ^ load<uint64_t>(word.data + at)) * kFactor;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  copy_bytes(&rest, word.data + at, word.size - at);
  hash = (hash ^ rest) * kFactor;
  return hash ^ hash >> 29;
}

}  // namespace

WordReader::WordReader(WordRules rules, Bytes letters)
    : rules_(rules), letters_(letters.data, letters.data + letters.size), slots_(kFirstSlots) {
  if (rules.splitting == Splitting::ngrams && (rules.min_ngram == 0 || rules.min_ngram > rules.max_ngram)) {
    corrupt("n-grams of %zu to %zu characters", rules.min_ngram, rules.max_ngram);
  }
}

FoundWords WordReader::read(Bytes data, Bytes offsets, unsigned offset_bits, size_t num_texts, Bytes document_ends) {
  if (offsets.size / offset_bytes(offset_bits) <= num_texts) {
    corrupt("%zu bytes of offsets for %zu texts", offsets.size, num_texts);
  }
  check_offsets(offsets, num_texts, data.size, offset_bits);
  OffsetReader at(offsets.data, offset_bits);
  size_t num_documents = document_ends.data == nullptr ? num_texts : document_ends.size / 8;
  FoundWords found;
  found.ends.reserve(num_documents);
  size_t text = 0;
  for (size_t document = 0; document < num_documents; ++document) {
    size_t end = document + 1;
    if (document_ends.data != nullptr) {
      auto given = load<int64_t>(document_ends.data + 8 * document);
      if (given < static_cast<int64_t>(text) || given > static_cast<int64_t>(num_texts)) {
        corrupt("document %zu ends at text %lld of %zu", document, static_cast<long long>(given), num_texts);
      }
      end = static_cast<size_t>(given);
    }
    uint32_t position = 0;
    for (; text < end; ++text) {
      read_text({data.data + at[text], static_cast<size_t>(at[text + 1] - at[text])}, found, position);
    }
    found.ends.push_back(static_cast<int64_t>(found.words.size()));
  }
  return found;
}

void WordReader::read_text(Bytes text, FoundWords& found, uint32_t& position) {
  switch (rules_.splitting) {
    case Splitting::letters:
      return split_letters(text, found, position);
    case Splitting::blanks:
      return split_blanks(text, found, position);
    case Splitting::whole:
      return add(text, position++, found);
    case Splitting::ngrams:
      return split_ngrams(text, found);
  }
}

void WordReader::split_letters(Bytes text, FoundWords& found, uint32_t& position) {
  size_t at = 0, start = 0;
  bool inside = false;
  while (at < text.size) {
    size_t here = at;
    uint32_t character = next_character(text, at);
    size_t byte = character >> 3;
    bool is_letter = byte < letters_.size() && ((letters_[byte] >> (character & 7)) & 1) != 0;
    if (is_letter && !inside) {
      start = here;
    } else if (!is_letter && inside) {
      add({text.data + start, here - start}, position++, found);
    }
    inside = is_letter;
  }
  if (inside) {
    add({text.data + start, text.size - start}, position++, found);
  }
}

void WordReader::split_blanks(Bytes text, FoundWords& found, uint32_t& position) {
  size_t start = 0;
  for (size_t at = 0; at <= text.size; ++at) {
    if (at == text.size || is_blank(text.data[at])) {
      if (at > start) {
        add({text.data + start, at - start}, position++, found);
      }
      start = at + 1;
    }
  }
}

void WordReader::split_ngrams(Bytes text, FoundWords& found) {
  character_.clear();
  for (size_t at = 0; at < text.size; next_character(text, at)) {
    character_.push_back(at);
  }
  size_t length = character_.size();
  character_.push_back(text.size);
  size_t starts = rules_.prefixes_only ? std::min<size_t>(1, length) : length;
  for (size_t start = 0; start < starts; ++start) {
    for (size_t n = rules_.min_ngram; n <= std::min(rules_.max_ngram, length - start); ++n) {
      add({text.data + character_[start], character_[start + n] - character_[start]}, 0, found);
    }
  }
}

void WordReader::add(Bytes word, uint32_t position, FoundWords& found) {
  if (word.size >= rules_.max_bytes) {
    return;
  }
  if (rules_.lower_ascii) {
    lowered_.resize(word.size);
    for (size_t i = 0; i < word.size; ++i) {
      uint8_t byte = word.data[i];
      lowered_[i] = static_cast<uint8_t>(byte + (byte >= 'A' && byte <= 'Z' ? 'a' - 'A' : 0));
    }
    word.data = lowered_.data();
  }
  found.words.push_back(number_of(word));
  found.positions.push_back(position);
}

uint32_t WordReader::number_of(Bytes word) {
  uint64_t hash = hash_of(word);
  size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) {
      if (ends_.size() >= UINT32_MAX - 1) {
        corrupt("more than %zu distinct words", ends_.size());
      }
      text_.insert(text_.end(), word.data, word.data + word.size);
      ends_.push_back(text_.size());
      hashes_.push_back(hash);
      slots_[slot] = static_cast<uint32_t>(ends_.size());
      auto number = static_cast<uint32_t>(ends_.size() - 1);
      if (2 * ends_.size() > slots_.size()) {
        grow();
      }
      return number;
    }
    uint32_t number = slots_[slot] - 1;
    size_t start = number == 0 ? 0 : ends_[number - 1];
    if (hashes_[number] == hash && ends_[number] - start == word.size &&
        std::equal(word.data, word.data + word.size, text_.data() + start)) {
      return number;
    }
  }
}

void WordReader::grow() {
  slots_.assign(slots_.size() * 2, 0);
  size_t mask = slots_.size() - 1;
  for (size_t number = 0; number < hashes_.size(); ++number) {
    size_t slot = hashes_[number] & mask;
    while (slots_[slot] != 0) {
      slot = (slot + 1) & mask;
    }
    slots_[slot] = static_cast<uint32_t>(number + 1);
  }
}

VariableValues WordReader::words(size_t first) const {
  if (first > ends_.size()) {
    corrupt("word %zu of %zu", first, ends_.size());
  }
  size_t start = first == 0 ? 0 : ends_[first - 1];
  VariableValues values{Block(8 * (ends_.size() - first + 1)), Block(text_.size() - start), ends_.size() - first};
  copy_bytes(values.data.data(), text_.data() + start, text_.size() - start);
  store<int64_t>(values.offsets.data(), 0);
  for (size_t number = first; number < ends_.size(); ++number) {
    store<int64_t>(values.offsets.data() + 8 * (number - first + 1), static_cast<int64_t>(ends_[number] - start));
  }
  return values;
}

}  // namespace lance
