// Python bindings of the kernels that pick single values.
#include "take/single_values.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "files/pieces.hpp"

namespace lance {

void bind_picks(nb::module_& m) {
  nb::class_<Descriptor>(m, "Descriptor")
      .def(
          "__init__",
          [](Descriptor* self, int number, const nb::bytes& path) {
            new (self) Descriptor(number, std::string(path.c_str(), path.size()));
          },
          nb::arg("number"), nb::arg("path"));
  m.def("close_unused_descriptors", &close_unused_descriptors);
  nb::class_<PieceReader>(m, "PieceReader")
      .def(nb::init<std::shared_ptr<Descriptor>, size_t, size_t, size_t>(), nb::arg("descriptor"),
           nb::arg("file_bytes"), nb::arg("max_gap"), nb::arg("map_after"))
      .def(
          "read_range",
          [](const PieceReader& reader, int64_t offset, int64_t length) {
            Pieces pieces = without_gil([&] { return reader.read_range(offset, length); });
            return std::make_tuple(std::move(pieces.data.front()), pieces.error, pieces.end);
          },
          nb::arg("offset"), nb::arg("length"))
      .def(
          "read",
          [](PieceReader& reader, const std::vector<std::pair<nb::object, nb::object>>& parts) {
            std::vector<std::unique_ptr<Source>> sources;
            std::vector<PieceRanges> ranges;
            for (const auto& [offsets, lengths] : parts) {
              sources.push_back(std::make_unique<Source>(offsets));
              sources.push_back(std::make_unique<Source>(lengths));
              ranges.push_back({sources[sources.size() - 2]->bytes(), sources.back()->bytes()});
            }
            Pieces pieces = without_gil([&] { return reader.read(ranges); });
            return std::make_tuple(std::move(pieces.data), pieces.error, pieces.end);
          },
          nb::arg("parts"));
  m.def(
      "choose_chunks",
      [](nb::handle positions, nb::handle first_values, nb::handle values, int64_t base) {
        Source position_source(positions), first_source(first_values), value_source(values);
        ChunkChoice choice = without_gil(
            [&] { return choose_chunks(position_source.bytes(), first_source.bytes(), value_source.bytes(), base); });
        return std::make_tuple(std::move(choice.offsets), std::move(choice.lengths), std::move(choice.starts),
                               std::move(choice.counts), std::move(choice.picks));
      },
      nb::arg("positions"), nb::arg("first_values"), nb::arg("values"), nb::arg("base"));
  m.def(
      "choose_row_chunks",
      [](nb::handle positions, nb::handle first_values, nb::handle first_rows, nb::handle ended_rows, nb::handle rows,
         int64_t base) {
        Source position_source(positions), value_source(first_values), first_source(first_rows),
            ended_source(ended_rows), row_source(rows);
        RowChoice choice = without_gil([&] {
          return choose_row_chunks(position_source.bytes(), value_source.bytes(), first_source.bytes(),
                                   ended_source.bytes(), row_source.bytes(), base);
        });
        return std::make_tuple(std::move(choice.offsets), std::move(choice.lengths), std::move(choice.starts),
                               std::move(choice.counts), std::move(choice.begun_rows), std::move(choice.places));
      },
      nb::arg("positions"), nb::arg("first_values"), nb::arg("first_rows"), nb::arg("ended_rows"), nb::arg("rows"),
      nb::arg("base"));
  m.def(
      "pick_rows",
      [](nb::handle rep, nb::handle def, const Counts& num_levels, const Counts& counts, const Counts& begun_rows,
         nb::handle places, uint16_t max_rep, uint16_t max_visible) {
        Source rep_source(rep), place_source(places);
        OptionalSource def_source(def);
        PickedRows rows = without_gil([&] {
          return pick_rows(rep_source.bytes(), def_source.bytes(), num_levels, counts, begun_rows, place_source.bytes(),
                           max_rep, max_visible);
        });
        return std::make_tuple(std::move(rows.rep), std::move(rows.def), std::move(rows.picks), rows.num_values);
      },
      nb::arg("rep"), nb::arg("def_").none(), nb::arg("num_levels"), nb::arg("counts"), nb::arg("begun_rows"),
      nb::arg("places"), nb::arg("max_rep"), nb::arg("max_visible"));
  m.def(
      "pick_fixed",
      [](const PyStream& stream, const Counts& counts, nb::handle picks, size_t width) {
        Source source(picks);
        return without_gil([&] { return pick_fixed(stream.stream, counts, source.bytes(), width); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("picks"), nb::arg("width"));
  m.def(
      "pick_bits",
      [](const PyStream& stream, const Counts& counts, nb::handle picks) {
        Source source(picks);
        return without_gil([&] { return pick_bits(stream.stream, counts, source.bytes()); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("picks"));
  m.def(
      "pick_inline",
      [](const PyStream& stream, const Counts& counts, nb::handle picks, unsigned word_bits) {
        Source source(picks);
        return without_gil([&] { return pick_inline(stream.stream, counts, source.bytes(), word_bits); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("picks"), nb::arg("word_bits"));
  m.def(
      "pick_variable",
      [](const PyStream& stream, const Counts& counts, nb::handle picks, unsigned offset_bits) {
        Source source(picks);
        return without_gil([&] { return as_tuple(pick_variable(stream.stream, counts, source.bytes(), offset_bits)); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("picks"), nb::arg("offset_bits"));
  m.def(
      "pick_levels",
      [](const PyStream& stream, const Counts& counts, nb::handle picks, const char* coding, unsigned bits) {
        Source source(picks);
        LevelEncoding encoding = level_encoding(coding, bits);
        return without_gil([&] { return pick_levels(stream.stream, counts, source.bytes(), encoding); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("picks"), nb::arg("coding"), nb::arg("bits"));
}

}  // namespace lance
