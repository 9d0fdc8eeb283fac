// Python bindings of the kernels that write pages.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "compression/compress_lz4.hpp"
#include "encode/bitpacking.hpp"
#include "encode/builders.hpp"
#include "encode/chunks.hpp"
#include "encode/dictionary.hpp"
#include "encode/fsst.hpp"
#include "encode/fullzip.hpp"
#include "encode/levels.hpp"
#include "encode/rows.hpp"
#include "encode/runs.hpp"
#include "encode/variable.hpp"

namespace lance {
namespace {

// Returns an encoded block as a stream of chunks, ready to be assembled.
PyStream stream_of(Block block, const std::vector<int64_t>& lengths) {
  auto owner = std::make_shared<Source>(nb::cast(std::move(block)));
  PyStream result{owner, {}};
  result.stream.base = owner->bytes();
  size_t at = 0;
  for (int64_t length : lengths) {
    result.stream.append(at, static_cast<size_t>(length));
    at += static_cast<size_t>(length);
  }
  return result;
}

void bind_chunks(nb::module_& m) {
  m.attr("LONGEST_RUN") = kLongestRun;
  nb::exception<ChunkOverflow>(m, "ChunkOverflow", PyExc_OverflowError);
  m.def(
      "assemble_chunks",
      [](const std::vector<const PyStream*>& buffers, const Counts& counts, nb::handle rep,
         const std::pair<std::string, unsigned>& rep_coding, nb::handle def,
         const std::pair<std::string, unsigned>& def_coding, uint16_t max_rep, uint16_t max_visible, bool large) {
        OptionalSource rep_source(rep), def_source(def);
        std::vector<const Stream*> streams;
        for (const PyStream* buffer : buffers) streams.push_back(&buffer->stream);
        LevelEncoding rep_encoding = level_encoding(rep_coding.first.c_str(), rep_coding.second);
        LevelEncoding def_encoding = level_encoding(def_coding.first.c_str(), def_coding.second);
        AssembledChunks out = without_gil([&] {
          return assemble_chunks(streams, counts, {rep_source.bytes(), rep_encoding},
                                 {def_source.bytes(), def_encoding}, max_rep, max_visible, large);
        });
        return std::make_tuple(std::move(out.words), std::move(out.chunks), std::move(out.repetition_index));
      },
      nb::arg("buffers"), nb::arg("counts"), nb::arg("rep").none(), nb::arg("rep_coding"), nb::arg("def_").none(),
      nb::arg("def_coding"), nb::arg("max_rep"), nb::arg("max_visible"), nb::arg("large"));
  m.def(
      "chunk_variable",
      [](nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits, size_t target_bytes, size_t max_values) {
        Source offset_source(offsets), data_source(data);
        VariableChunks out = without_gil([&] {
          return chunk_variable(offset_source.bytes(), data_source.bytes(), n, offset_bits, target_bytes, max_values);
        });
        return std::make_pair(std::move(out.counts), stream_of(std::move(out.data), out.lengths));
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("target_bytes"),
      nb::arg("max_values"));
  m.def(
      "compress_lz4",
      [](const PyStream& chunks) {
        PackedFrames out = without_gil([&] { return compress_lz4(chunks.stream); });
        return stream_of(std::move(out.data), out.lengths);
      },
      nb::arg("chunks"));
  m.def(
      "longest_value",
      [](nb::handle offsets, size_t n, unsigned offset_bits) {
        Source source(offsets);
        return without_gil([&] { return longest_value(source.bytes(), n, offset_bits); });
      },
      nb::arg("offsets"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "rebase_offsets",
      [](nb::handle offsets, size_t n, unsigned offset_bits) {
        Source source(offsets);
        return without_gil([&] { return rebase_offsets(source.bytes(), n, offset_bits); });
      },
      nb::arg("offsets"), nb::arg("num_values"), nb::arg("offset_bits"));
}

void bind_words(nb::module_& m) {
  m.def(
      "pack_inline",
      [](nb::handle values, unsigned word_bits) {
        Source source(values);
        PackedChunks out = without_gil([&] { return pack_inline(source.bytes(), word_bits); });
        return stream_of(std::move(out.data), out.lengths);
      },
      nb::arg("values"), nb::arg("word_bits"));
  m.def(
      "pack_out_of_line",
      [](nb::handle values, unsigned word_bits, unsigned bits) {
        Source source(values);
        return without_gil([&] { return pack_out_of_line(source.bytes(), word_bits, bits); });
      },
      nb::arg("values"), nb::arg("word_bits"), nb::arg("bits"));
  m.def(
      "survey_words",
      [](nb::handle values, unsigned word_bits, bool is_signed) {
        Source source(values);
        WordSurvey out = without_gil([&] { return survey_words(source.bytes(), word_bits, is_signed); });
        return std::make_tuple(out.packed_bytes, out.num_runs, out.highest_bit, out.least, out.most);
      },
      nb::arg("values"), nb::arg("word_bits"), nb::arg("is_signed") = false);
  m.def(
      "encode_runs",
      [](nb::handle values, unsigned word_bits, size_t chunk_values, size_t chunk_bytes) {
        Source source(values);
        RunChunks out = without_gil([&] { return encode_runs(source.bytes(), word_bits, chunk_values, chunk_bytes); });
        std::vector<int64_t> value_bytes(out.num_runs);
        for (int64_t& bytes : value_bytes) bytes *= word_bits / 8;
        return std::make_tuple(std::move(out.counts), stream_of(std::move(out.values), value_bytes),
                               stream_of(std::move(out.lengths), out.num_runs));
      },
      nb::arg("values"), nb::arg("word_bits"), nb::arg("chunk_values"), nb::arg("chunk_bytes"));
  m.def(
      "split_byte_streams",
      [](nb::handle values, size_t width, size_t chunk_values) {
        Source source(values);
        return without_gil([&] { return split_byte_streams(source.bytes(), width, chunk_values); });
      },
      nb::arg("values"), nb::arg("width"), nb::arg("chunk_values"));
  m.def(
      "cut_bits",
      [](nb::handle bits, size_t offset, const Counts& counts) {
        Source source(bits);
        return without_gil([&] { return cut_bits(source.bytes(), offset, counts); });
      },
      nb::arg("bits"), nb::arg("offset"), nb::arg("counts"));
}

void bind_symbols(nb::module_& m) {
  m.def(
      "find_distinct",
      [](nb::handle offsets, nb::handle data, unsigned offset_bits, size_t width, size_t n, nb::handle validity,
         size_t first_bit, size_t max_items) -> nb::object {
        OptionalSource offset_source(offsets), validity_source(validity);
        Source data_source(data);
        Distinct out = without_gil([&] {
          return find_distinct({offset_source.bytes(), data_source.bytes(), offset_bits, width, n},
                               {validity_source.bytes(), first_bit}, max_items);
        });
        if (!out.complete) {
          return nb::none();
        }
        return nb::cast(std::make_pair(std::move(out.indices), std::move(out.first)));
      },
      nb::arg("offsets").none(), nb::arg("data"), nb::arg("offset_bits"), nb::arg("width"), nb::arg("num_values"),
      nb::arg("validity").none(), nb::arg("first_bit"), nb::arg("max_items"));
  m.def(
      "sample_distinct",
      [](nb::handle offsets, nb::handle data, unsigned offset_bits, size_t width, size_t n, nb::handle validity,
         size_t first_bit, size_t step, size_t most) {
        OptionalSource offset_source(offsets), validity_source(validity);
        Source data_source(data);
        Sampled out = without_gil([&] {
          return sample_distinct({offset_source.bytes(), data_source.bytes(), offset_bits, width, n},
                                 {validity_source.bytes(), first_bit}, step, most);
        });
        return std::make_pair(out.valid, out.distinct);
      },
      nb::arg("offsets").none(), nb::arg("data"), nb::arg("offset_bits"), nb::arg("width"), nb::arg("num_values"),
      nb::arg("validity").none(), nb::arg("first_bit"), nb::arg("step"), nb::arg("most"));
  m.def(
      "train_symbols",
      [](nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits, size_t sample_bytes) {
        Source offset_source(offsets), data_source(data);
        return without_gil(
            [&] { return train_symbols(offset_source.bytes(), data_source.bytes(), n, offset_bits, sample_bytes); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("sample_bytes"));
  m.def(
      "compress_symbols",
      [](nb::handle table, nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits) {
        Source table_source(table), offset_source(offsets), data_source(data);
        return without_gil([&] {
          return as_tuple(
              compress_symbols(table_source.bytes(), offset_source.bytes(), data_source.bytes(), n, offset_bits));
        });
      },
      nb::arg("table"), nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "try_symbols",
      [](nb::handle table, nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits, size_t sample_bytes) {
        Source table_source(table), offset_source(offsets), data_source(data);
        SampleSize size = without_gil([&] {
          return try_symbols(table_source.bytes(), offset_source.bytes(), data_source.bytes(), n, offset_bits,
                             sample_bytes);
        });
        return std::make_pair(size.coded_bytes, size.bytes);
      },
      nb::arg("table"), nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"),
      nb::arg("sample_bytes"));
}

void bind_rows(nb::module_& m) {
  m.def(
      "zip_fixed",
      [](nb::handle values, size_t width, size_t n, nb::handle rep, nb::handle def, unsigned rep_bits,
         unsigned def_bits, uint16_t max_visible, uint16_t max_rep) {
        Source source(values);
        OptionalSource rep_source(rep), def_source(def);
        Zipped out = without_gil([&] {
          return zip_fixed(source.bytes(), width, n, rep_source.bytes(), def_source.bytes(),
                           {rep_bits, def_bits, max_visible}, max_rep);
        });
        return std::make_pair(std::move(out.data), std::move(out.index));
      },
      nb::arg("values"), nb::arg("width"), nb::arg("num_values"), nb::arg("rep").none(), nb::arg("def_").none(),
      nb::arg("rep_bits"), nb::arg("def_bits"), nb::arg("max_visible"), nb::arg("max_rep"));
  m.def(
      "zip_variable",
      [](nb::handle offsets, nb::handle data, size_t n, unsigned length_bits, nb::handle rep, nb::handle def,
         unsigned rep_bits, unsigned def_bits, uint16_t max_visible, uint16_t max_rep) {
        Source offset_source(offsets), data_source(data);
        OptionalSource rep_source(rep), def_source(def);
        Zipped out = without_gil([&] {
          return zip_variable(offset_source.bytes(), data_source.bytes(), n, length_bits, rep_source.bytes(),
                              def_source.bytes(), {rep_bits, def_bits, max_visible}, max_rep);
        });
        return std::make_pair(std::move(out.data), std::move(out.index));
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("length_bits"), nb::arg("rep").none(),
      nb::arg("def_").none(), nb::arg("rep_bits"), nb::arg("def_bits"), nb::arg("max_visible"), nb::arg("max_rep"));
  m.def(
      "interleave_rows",
      [](const std::vector<nb::object>& columns, const std::vector<size_t>& widths, size_t num_rows) {
        std::vector<std::unique_ptr<Source>> sources;
        std::vector<Bytes> bytes;
        for (const nb::object& column : columns) {
          sources.push_back(std::make_unique<Source>(column));
          bytes.push_back(sources.back()->bytes());
        }
        return without_gil([&] { return interleave_rows(bytes, widths, num_rows); });
      },
      nb::arg("columns"), nb::arg("widths"), nb::arg("num_rows"));
  m.def(
      "join_variable_rows",
      [](const std::vector<std::tuple<size_t, unsigned, nb::object, nb::object>>& fields, size_t num_rows,
         nb::handle validity, size_t first_bit) {
        OptionalSource validity_source(validity);
        std::vector<std::unique_ptr<OptionalSource>> sources;
        std::vector<PackedSource> packed;
        for (const auto& [width, length_bits, offsets, data] : fields) {
          sources.push_back(std::make_unique<OptionalSource>(offsets));
          Bytes offset_bytes = sources.back()->bytes();
          sources.push_back(std::make_unique<OptionalSource>(data));
          packed.push_back({width, length_bits, offset_bytes, sources.back()->bytes()});
        }
        return without_gil(
            [&] { return as_tuple(join_variable_rows(packed, num_rows, {validity_source.bytes(), first_bit})); });
      },
      nb::arg("fields"), nb::arg("num_rows"), nb::arg("validity").none(), nb::arg("first_bit"));
}

void bind_levels(nb::module_& m) {
  m.def(
      "shred_items",
      [](nb::handle def, size_t num_entries, nb::handle validity, size_t first_bit, size_t num_slots, uint16_t null,
         uint16_t dead) {
        OptionalSource def_source(def), validity_source(validity);
        return without_gil([&] {
          return shred_items(def_source.bytes(), num_entries, {validity_source.bytes(), first_bit}, num_slots, null,
                             dead);
        });
      },
      nb::arg("def_").none(), nb::arg("num_entries"), nb::arg("validity").none(), nb::arg("first_bit"),
      nb::arg("num_slots"), nb::arg("null"), nb::arg("dead"));
  m.def(
      "shred_lists",
      [](nb::handle rep, nb::handle def, size_t num_entries, nb::handle offsets, unsigned offset_bits, size_t num_slots,
         nb::handle validity, size_t first_bit, uint16_t null, uint16_t empty, uint16_t rep_level, uint16_t dead) {
        Source offset_source(offsets);
        OptionalSource rep_source(rep), def_source(def), validity_source(validity);
        Shredded out = without_gil([&] {
          return shred_lists(rep_source.bytes(), def_source.bytes(), num_entries, offset_source.bytes(), offset_bits,
                             num_slots, {validity_source.bytes(), first_bit}, {null, empty, rep_level, dead});
        });
        return std::make_tuple(std::move(out.rep), std::move(out.def), out.num_entries);
      },
      nb::arg("rep").none(), nb::arg("def_").none(), nb::arg("num_entries"), nb::arg("offsets"), nb::arg("offset_bits"),
      nb::arg("num_slots"), nb::arg("validity").none(), nb::arg("first_bit"), nb::arg("null"), nb::arg("empty"),
      nb::arg("rep_level"), nb::arg("dead"));
  m.def(
      "repeat_levels",
      [](nb::handle levels, size_t times) {
        Source source(levels);
        return without_gil([&] { return repeat_levels(source.bytes(), times); });
      },
      nb::arg("levels"), nb::arg("times"));
  m.def(
      "count_levels",
      [](nb::handle levels, size_t highest) {
        Source source(levels);
        return without_gil([&] { return count_levels(source.bytes(), highest); });
      },
      nb::arg("levels"), nb::arg("highest"));
  m.def(
      "map_levels",
      [](nb::handle levels, const std::vector<int64_t>& map) {
        Source source(levels);
        return without_gil([&] { return map_levels(source.bytes(), map); });
      },
      nb::arg("levels"), nb::arg("map"));
  m.def(
      "encode_levels",
      [](nb::handle levels, const std::pair<std::string, unsigned>& coding) {
        Source source(levels);
        LevelEncoding encoding = level_encoding(coding.first.c_str(), coding.second);
        return without_gil([&] {
          Bytes bytes = source.bytes();
          Block out(levels_bytes(bytes.data, bytes.size / 2, encoding));
          write_levels(bytes.data, bytes.size / 2, encoding, out.data());
          return out;
        });
      },
      nb::arg("levels"), nb::arg("coding"));
  m.def(
      "count_changes",
      [](nb::handle levels) {
        Source source(levels);
        return without_gil([&] { return count_changes(source.bytes()); });
      },
      nb::arg("levels"));
}

void bind_builders(nb::module_& m) {
  nb::class_<ArrayBuilder>(m, "ArrayBuilder")
      .def(nb::init<size_t, unsigned, size_t>(), nb::arg("value_bits"), nb::arg("offset_bits"),
           nb::arg("expected_bytes"))
      .def(
          "append",
          [](ArrayBuilder& self, size_t n, size_t first, nb::handle validity, nb::handle values, nb::handle data) {
            OptionalSource validity_source(validity), value_source(values), data_source(data);
            without_gil(
                [&] { self.append(n, first, validity_source.bytes(), value_source.bytes(), data_source.bytes()); });
          },
          nb::arg("num_values"), nb::arg("first"), nb::arg("validity").none(), nb::arg("values").none() = nb::none(),
          nb::arg("data").none() = nb::none())
      .def("finish", [](ArrayBuilder& self) {
        BuiltArray out = self.finish();
        return std::make_tuple(out.num_values, out.null_count, std::move(out.validity), std::move(out.values),
                               std::move(out.data));
      });
  nb::class_<LevelBuilder>(m, "LevelBuilder")
      .def(nb::init<size_t>(), nb::arg("expected_bytes"))
      .def(
          "append",
          [](LevelBuilder& self, size_t first, size_t n, nb::handle levels) {
            Source source(levels);
            without_gil([&] { self.append(first, n, source.bytes()); });
          },
          nb::arg("first"), nb::arg("num_entries"), nb::arg("levels"))
      .def(
          "finish",
          [](LevelBuilder& self, size_t num_entries) -> nb::object {
            return self.empty() ? nb::none() : nb::cast(self.finish(num_entries));
          },
          nb::arg("num_entries"));
}

}  // namespace

void bind_encoders(nb::module_& m) {
  bind_builders(m);
  bind_chunks(m);
  bind_words(m);
  bind_symbols(m);
  bind_levels(m);
  bind_rows(m);
}

}  // namespace lance
