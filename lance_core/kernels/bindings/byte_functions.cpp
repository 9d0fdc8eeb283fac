// Python bindings of the kernels for functions of bytes, texts, numbers and lists.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "filters/float_pairs.hpp"
#include "filters/list_items.hpp"
#include "functions/base64.hpp"
#include "functions/digests.hpp"
#include "functions/edit_distance.hpp"
#include "functions/join.hpp"
#include "functions/like.hpp"
#include "functions/remainders.hpp"
#include "functions/replace.hpp"
#include "functions/split_part.hpp"
#include "functions/text_lengths.hpp"
#include "metadata/message_fields.hpp"

namespace lance {
namespace {

Digest digest_of(const std::string& name) {
  if (name == "md5") return Digest::md5;
  if (name == "sha224") return Digest::sha224;
  if (name == "sha256") return Digest::sha256;
  if (name == "sha384") return Digest::sha384;
  if (name == "sha512") return Digest::sha512;
  throw nb::value_error("unknown digest");
}

}  // namespace

void bind_byte_functions(nb::module_& m) {
  m.def(
      "digest_values",
      [](nb::handle offsets, nb::handle data, size_t num_values, const std::string& name) {
        Source offset_source(offsets), data_source(data);
        Digest digest = digest_of(name);
        return without_gil(
            [&] { return digest_values(digest, offset_source.bytes(), data_source.bytes(), num_values); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("name"));
  m.def(
      "encode_base64",
      [](nb::handle offsets, nb::handle data, size_t num_values, bool padding) {
        Source offset_source(offsets), data_source(data);
        return without_gil(
            [&] { return as_tuple(encode_base64(offset_source.bytes(), data_source.bytes(), num_values, padding)); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("padding"));
  m.def(
      "decode_base64",
      [](nb::handle offsets, nb::handle data, size_t num_values, bool required) {
        Source offset_source(offsets), data_source(data);
        return without_gil(
            [&] { return as_tuple(decode_base64(offset_source.bytes(), data_source.bytes(), num_values, required)); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("required"));
  m.def(
      "edit_distances",
      [](nb::handle left_offsets, nb::handle left, nb::handle right_offsets, nb::handle right, size_t num_values) {
        Source a_offsets(left_offsets), a(left), b_offsets(right_offsets), b(right);
        return without_gil(
            [&] { return edit_distances(a_offsets.bytes(), a.bytes(), b_offsets.bytes(), b.bytes(), num_values); });
      },
      nb::arg("left_offsets"), nb::arg("left"), nb::arg("right_offsets"), nb::arg("right"), nb::arg("num_values"));
  m.def(
      "match_like",
      [](nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits,
         const std::vector<std::vector<std::pair<size_t, nb::bytes>>>& segments, bool at_start, bool at_end) {
        if (offset_bits != 32 && offset_bits != 64) throw nb::value_error("offsets have 32 or 64 bits");
        if (segments.empty() && (at_start || at_end)) throw nb::value_error("a pattern without segments has no ends");
        std::vector<LikeSegment> pattern;
        for (const auto& segment : segments) {
          if (segment.empty()) throw nb::value_error("a segment of a pattern has no pieces");
          LikeSegment& pieces = pattern.emplace_back();
          for (const auto& [skipped, literal] : segment) {
            pieces.push_back({skipped, std::string(literal.c_str(), literal.size())});
          }
        }
        Source offset_source(offsets), data_source(data);
        return without_gil([&] {
          return match_like(offset_source.bytes(), data_source.bytes(), num_values, offset_bits, pattern, at_start,
                            at_end);
        });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("segments"),
      nb::arg("at_start"), nb::arg("at_end"));
  m.def(
      "remainders",
      [](nb::handle numbers, unsigned bits, bool is_signed, uint64_t divisor) {
        require_divisor(bits, is_signed, divisor);
        Source source(numbers);
        return without_gil([&] { return remainders(source.bytes(), bits, is_signed, divisor); });
      },
      nb::arg("numbers"), nb::arg("bits"), nb::arg("is_signed"), nb::arg("divisor"));
  m.def(
      "split_part",
      [](nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits, nb::bytes separator,
         int64_t index) {
        if (offset_bits != 32 && offset_bits != 64) throw nb::value_error("offsets have 32 or 64 bits");
        std::string wanted(separator.c_str(), separator.size());
        if (wanted.empty() || index == 0) throw nb::value_error("a part needs a separator and an index");
        Source offset_source(offsets), data_source(data);
        return without_gil([&] {
          return as_tuple(
              split_part(offset_source.bytes(), data_source.bytes(), num_values, offset_bits, wanted, index));
        });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("separator"),
      nb::arg("index"));
  m.def(
      "replace_text",
      [](nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits, nb::bytes part, nb::bytes by) {
        if (part.size() == 0) throw nb::value_error("an empty part is everywhere");
        std::string wanted(part.c_str(), part.size()), replacement(by.c_str(), by.size());
        Source offset_source(offsets), data_source(data);
        return without_gil([&] {
          return as_tuple(
              replace_text(offset_source.bytes(), data_source.bytes(), num_values, offset_bits, wanted, replacement));
        });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("part"),
      nb::arg("by"));
  m.def(
      "join_texts",
      [](const std::vector<std::pair<nb::object, nb::object>>& operands, size_t num_values, unsigned offset_bits) {
        std::vector<std::unique_ptr<Source>> sources;
        std::vector<JoinedTexts> texts;
        auto opened = [&](nb::handle object) { return sources.emplace_back(new Source(object))->bytes(); };
        for (const auto& [offsets, data] : operands) {
          texts.push_back({offsets.is_none() ? Bytes{} : opened(offsets), opened(data)});
        }
        return without_gil([&] { return as_tuple(join_texts(texts, num_values, offset_bits)); });
      },
      nb::arg("operands"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "count_characters",
      [](nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits) {
        Source offset_source(offsets), data_source(data);
        return without_gil(
            [&] { return count_characters(offset_source.bytes(), data_source.bytes(), num_values, offset_bits); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "compare_floats",
      [](nb::handle left, nb::handle right, unsigned bits, bool is_less, bool is_negated) {
        if (bits != 32 && bits != 64) throw nb::value_error("floats have 32 or 64 bits");
        Source left_source(left), right_source(right);
        return without_gil(
            [&] { return compare_floats(left_source.bytes(), right_source.bytes(), bits, is_less, is_negated); });
      },
      nb::arg("left"), nb::arg("right"), nb::arg("bits"), nb::arg("is_less"), nb::arg("is_negated"));
  m.def(
      "lists_with",
      [](nb::handle offsets, size_t num_lists, unsigned offset_bits, nb::handle found) {
        Source offset_source(offsets), found_source(found);
        return without_gil(
            [&] { return lists_with(offset_source.bytes(), num_lists, offset_bits, found_source.bytes()); });
      },
      nb::arg("offsets"), nb::arg("num_lists"), nb::arg("offset_bits"), nb::arg("found"));
  m.def(
      "list_places",
      [](nb::handle offsets, size_t num_lists, unsigned offset_bits, nb::handle indices) {
        Source offset_source(offsets), index_source(indices);
        return without_gil(
            [&] { return list_places(offset_source.bytes(), num_lists, offset_bits, index_source.bytes()); });
      },
      nb::arg("offsets"), nb::arg("num_lists"), nb::arg("offset_bits"), nb::arg("indices"));
  m.def(
      "field_totals",
      [](nb::handle message, const std::vector<uint64_t>& path) {
        if (path.empty()) {
          throw nb::value_error("a path of no fields");
        }
        Source source(message);
        FieldTotals totals = without_gil([&] { return field_totals(source.bytes(), path); });
        return std::tuple(totals.count, totals.sum);
      },
      nb::arg("message"), nb::arg("path"));
}

}  // namespace lance
