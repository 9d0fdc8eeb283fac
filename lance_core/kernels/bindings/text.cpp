// Python bindings of the kernels of full text indices.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "text/collector.hpp"
#include "text/dictionary.hpp"
#include "text/postings.hpp"
#include "text/scoring.hpp"
#include "text/words.hpp"

namespace lance {
namespace {

Splitting splitting_of(const std::string& name) {
  if (name == "letters") return Splitting::letters;
  if (name == "blanks") return Splitting::blanks;
  if (name == "whole") return Splitting::whole;
  if (name == "ngrams") return Splitting::ngrams;
  throw nb::value_error("unknown way to split texts");
}

template <class T>
Block block_of(const std::vector<T>& values) {
  Block block(values.size() * sizeof(T));
  copy_bytes(block.data(), values.data(), block.size());
  return block;
}

// A posting list with the buffer that it is in.
struct PyPostings {
  std::shared_ptr<Source> owner;
  PostingList list;
};

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<WordReader>(m, "WordReader")
      .def(
          "__init__",
          [](WordReader* self, const std::string& splitting, nb::handle letters, size_t min_ngram, size_t max_ngram,
             bool prefixes_only, std::optional<size_t> max_bytes, bool lower_ascii) {
            OptionalSource source(letters);
            WordRules rules{splitting_of(splitting),      min_ngram,  max_ngram, prefixes_only,
                            max_bytes.value_or(SIZE_MAX), lower_ascii};
            new (self) WordReader(rules, source.bytes());
          },
          nb::arg("splitting"), nb::arg("letters").none(), nb::arg("min_ngram"), nb::arg("max_ngram"),
          nb::arg("prefixes_only"), nb::arg("max_bytes").none(), nb::arg("lower_ascii"))
      .def(
          "read",
          [](WordReader& self, nb::handle data, nb::handle offsets, unsigned offset_bits, size_t num_texts,
             nb::handle document_ends) {
            OptionalSource data_source(data), end_source(document_ends);
            Source offset_source(offsets);
            return without_gil([&] {
              FoundWords found =
                  self.read(data_source.bytes(), offset_source.bytes(), offset_bits, num_texts, end_source.bytes());
              return std::make_tuple(block_of(found.words), block_of(found.positions), block_of(found.ends));
            });
          },
          nb::arg("data").none(), nb::arg("offsets"), nb::arg("offset_bits"), nb::arg("num_texts"),
          nb::arg("document_ends").none())
      .def_prop_ro("num_words", &WordReader::num_words)
      .def_prop_ro("num_bytes", &WordReader::num_bytes)
      .def("words", [](const WordReader& self, size_t first) { return as_tuple(self.words(first)); }, nb::arg("first"));

  nb::class_<TermCollector>(m, "TermCollector")
      .def(nb::init<bool, unsigned>(), nb::arg("with_positions"), nb::arg("format") = 2)
      .def(
          "add",
          [](TermCollector& self, nb::handle words, nb::handle positions, nb::handle ends, nb::handle terms) {
            Source word_source(words), end_source(ends), term_source(terms);
            OptionalSource position_source(positions);
            return without_gil([&] {
              return self.add(word_source.bytes(), position_source.bytes(), end_source.bytes(), term_source.bytes());
            });
          },
          nb::arg("words"), nb::arg("positions").none(), nb::arg("ends"), nb::arg("terms"))
      .def_prop_ro("num_documents", &TermCollector::num_documents)
      .def_prop_ro("num_bytes", &TermCollector::num_bytes)
      .def(
          "sort",
          [](TermCollector& self, nb::handle order, nb::handle ranks) {
            OptionalSource order_source(order);
            Source rank_source(ranks);
            without_gil([&] { self.sort(order_source.bytes(), rank_source.bytes()); });
          },
          nb::arg("order").none(), nb::arg("ranks"))
      .def(
          "encode",
          [](TermCollector& self, size_t first, size_t end) {
            EncodedPostings found = without_gil([&] { return self.encode(first, end); });
            return std::make_tuple(std::move(found.data), std::move(found.block_ends), std::move(found.list_ends),
                                   std::move(found.bounds), std::move(found.lengths), std::move(found.positions),
                                   std::move(found.position_ends), std::move(found.position_starts),
                                   std::move(found.string_ends));
          },
          nb::arg("first"), nb::arg("end"));

  m.def(
      "find_key",
      [](nb::handle map, nb::handle key) {
        Source map_source(map), key_source(key);
        return without_gil([&] { return find_key(map_source.bytes(), key_source.bytes()); });
      },
      nb::arg("map"), nb::arg("key"));
  m.def(
      "expand_map",
      [](nb::handle map, size_t max_bytes) {
        Source source(map);
        MapEntries entries = without_gil([&] { return expand_map(source.bytes(), max_bytes); });
        return std::make_tuple(std::move(entries.keys.offsets), std::move(entries.keys.data),
                               std::move(entries.values));
      },
      nb::arg("map"), nb::arg("max_bytes"));
  m.def(
      "build_map",
      [](nb::handle offsets, nb::handle data, nb::handle values) {
        Source offset_source(offsets), value_source(values);
        OptionalSource data_source(data);
        return without_gil([&] { return build_map(offset_source.bytes(), data_source.bytes(), value_source.bytes()); });
      },
      nb::arg("offsets"), nb::arg("data").none(), nb::arg("values"));
  m.def(
      "similar_terms",
      [](nb::handle offsets, nb::handle data, nb::handle term, size_t distance, size_t prefix_bytes, size_t limit) {
        Source offset_source(offsets), term_source(term);
        OptionalSource data_source(data);
        return without_gil([&] {
          return similar_terms(offset_source.bytes(), data_source.bytes(), term_source.bytes(), distance, prefix_bytes,
                               limit);
        });
      },
      nb::arg("offsets"), nb::arg("data").none(), nb::arg("term"), nb::arg("distance"), nb::arg("prefix_bytes"),
      nb::arg("limit"));

  nb::class_<PyPostings>(m, "Postings")
      .def(
          "__init__",
          [](PyPostings* self, nb::handle data, nb::handle ends, size_t length, size_t num_documents, size_t block_size,
             bool fixed_tail) {
            auto owner = std::make_shared<Source>(data);
            Source end_source(ends);
            PostingList list(owner->bytes(), end_source.bytes(), length, num_documents, block_size, fixed_tail);
            new (self) PyPostings{std::move(owner), std::move(list)};
          },
          nb::arg("data"), nb::arg("ends"), nb::arg("length"), nb::arg("num_documents"), nb::arg("block_size"),
          nb::arg("fixed_tail"))
      .def("__len__", [](const PyPostings& self) { return self.list.length(); })
      .def("decode", [](const PyPostings& self) {
        Postings found = without_gil([&] { return decode_postings(self.list); });
        return std::make_tuple(std::move(found.documents), std::move(found.frequencies));
      });
  m.def(
      "decode_positions",
      [](nb::handle data, nb::handle block_starts, nb::handle frequencies, size_t block_size, bool packed) {
        OptionalSource data_source(data);
        Source start_source(block_starts), frequency_source(frequencies);
        return without_gil([&] {
          return decode_positions(data_source.bytes(), start_source.bytes(), frequency_source.bytes(), block_size,
                                  packed);
        });
      },
      nb::arg("data").none(), nb::arg("block_starts"), nb::arg("frequencies"), nb::arg("block_size"),
      nb::arg("packed"));
  m.def(
      "decode_position_lists",
      [](nb::handle data, nb::handle ends, nb::handle document_ends, nb::handle frequencies) {
        OptionalSource data_source(data);
        Source end_source(ends), document_source(document_ends), frequency_source(frequencies);
        return without_gil([&] {
          return decode_position_lists(data_source.bytes(), end_source.bytes(), document_source.bytes(),
                                       frequency_source.bytes());
        });
      },
      nb::arg("data").none(), nb::arg("ends"), nb::arg("document_ends"), nb::arg("frequencies"));
  m.def(
      "match_phrase",
      [](const std::vector<std::tuple<nb::object, nb::object, nb::object, int64_t>>& words, int64_t slop) {
        std::vector<std::unique_ptr<Source>> sources;
        std::vector<PhraseWord> given;
        auto open = [&](const nb::object& object) {
          sources.push_back(std::make_unique<Source>(object));
          return sources.back()->bytes();
        };
        for (const auto& [documents, frequencies, positions, place] : words) {
          Bytes opened[3] = {open(documents), open(frequencies), open(positions)};
          given.push_back({opened[0], opened[1], opened[2], place});
        }
        return without_gil([&] { return match_phrase(given, slop); });
      },
      nb::arg("words"), nb::arg("slop"));
  m.def(
      "best_documents",
      [](const std::vector<std::tuple<nb::object, float, uint32_t>>& terms, nb::handle norms, float norm_key,
         nb::handle allowed, uint32_t required_words, std::optional<size_t> limit) {
        std::vector<SearchTerm> given;
        for (const auto& [postings, weight, word] : terms) {
          given.push_back({&nb::cast<const PyPostings&>(postings).list, weight, word});
        }
        Source norm_source(norms);
        OptionalSource allowed_source(allowed);
        ScoredDocuments best = without_gil([&] {
          return best_documents(given, norm_source.bytes(), norm_key, allowed_source.bytes(), required_words,
                                limit.value_or(SIZE_MAX));
        });
        return std::make_tuple(std::move(best.documents), std::move(best.scores));
      },
      nb::arg("terms"), nb::arg("norms"), nb::arg("norm_key"), nb::arg("allowed").none(), nb::arg("required_words"),
      nb::arg("limit").none());
}

}  // namespace lance
