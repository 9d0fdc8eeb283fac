// Python bindings of the kernels. Every function accepts objects with the buffer protocol, releases the GIL while it
// works, and returns blocks that Arrow wraps without a copy.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/flat.hpp"
#include "base/pool.hpp"
#include "base/variable.hpp"
#include "bindings/bindings.hpp"
#include "codecs/bit_stream.hpp"
#include "codecs/bitpacking.hpp"
#include "codecs/byte_stream_split.hpp"
#include "codecs/fsst_ways.hpp"
#include "codecs/runs.hpp"
#include "files/checked_write.hpp"
#include "files/crc32c.hpp"
#include "files/io_counts.hpp"
#include "pages/chunks.hpp"
#include "pages/end_offsets.hpp"
#include "pages/fullzip.hpp"
#include "pages/gather.hpp"
#include "pages/levels.hpp"
#include "pages/rows.hpp"

using namespace lance;

namespace {

int block_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* block = nb::inst_ptr<Block>(self);
  return PyBuffer_FillInfo(view, self, block->data(), static_cast<Py_ssize_t>(block->size()), 0, flags);
}

PyType_Slot block_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(block_get_buffer)}, {0, nullptr}};

}  // namespace

NB_MODULE(_kernels, m) {
  // Arrow arrays that live until the interpreter ends keep their blocks, which is not worth a warning.
  nb::set_leak_warnings(false);

  nb::exception<CorruptData>(m, "CorruptData", PyExc_ValueError);
  nb::exception<OffsetOverflow>(m, "OffsetOverflow", PyExc_OverflowError);
  nb::exception<NoResult>(m, "NoResult", PyExc_ValueError);

  nb::class_<Block>(m, "Block", nb::type_slots(block_slots))
      .def(nb::init<size_t>(), nb::arg("num_bytes"))
      .def("__len__", &Block::size);

  m.def("pool_use", [] {
    PoolUse use = pool_use();
    return std::make_pair(use.used_bytes, use.retained_bytes);
  });
  m.def("count_read", [](size_t num_bytes) { count_reads(1, num_bytes); }, nb::arg("num_bytes"));
  m.def("count_write", [](size_t num_bytes) { count_write(num_bytes); }, nb::arg("num_bytes"));
  m.def("io_counts", [] {
    return std::make_tuple(io_counts.reads.load(), io_counts.read_bytes.load(), io_counts.writes.load(),
                           io_counts.written_bytes.load());
  });
  m.def("thread_reads",
        [] { return std::make_tuple(thread_reads.calls, thread_reads.reads, thread_reads.read_bytes); });
  m.def("set_pool_retention", &set_pool_retention, nb::arg("num_bytes"));

  nb::class_<Counts>(m, "Counts")
      .def(
          "__init__", [](Counts* self, nb::handle values) { new (self) Counts(read_int64(values)); }, nb::arg("values"))
      .def_prop_ro("total", [](const Counts& self) { return self.total; })
      .def_prop_ro("values",
                   [](const Counts& self) {
                     Block values(self.values.size() * sizeof(int64_t));
                     copy_bytes(values.data(), reinterpret_cast<const uint8_t*>(self.values.data()), values.size());
                     return values;
                   })
      .def("__len__", [](const Counts& self) { return self.values.size(); })
      .def(
          "scaled",
          [](const Counts& self, int64_t factor) {
            if (factor < 0 || factor > (int64_t{1} << 40)) {
              corrupt("%lld items in a value", static_cast<long long>(factor));
            }
            std::vector<int64_t> values(self.values);
            for (int64_t& n : values) {
              if (factor != 0 && n > (int64_t{1} << 50) / factor) {
                corrupt("%lld values of %lld items", static_cast<long long>(n), static_cast<long long>(factor));
              }
              n *= factor;
            }
            return Counts(std::move(values));
          },
          nb::arg("factor"));

  nb::class_<PyStream>(m, "Stream")
      .def(
          "__init__",
          [](PyStream* self, nb::handle data, nb::handle offsets, nb::handle lengths) {
            auto owner = std::make_shared<Source>(data);
            Stream stream;
            stream.base = owner->bytes();
            std::vector<int64_t> at = read_int64(offsets), length = read_int64(lengths);
            if (at.size() != length.size()) {
              corrupt("%zu offsets and %zu lengths of chunks", at.size(), length.size());
            }
            for (size_t i = 0; i < at.size(); ++i) {
              stream.append(static_cast<size_t>(at[i]), static_cast<size_t>(length[i]));
            }
            new (self) PyStream{std::move(owner), std::move(stream)};
          },
          nb::arg("data"), nb::arg("offsets"), nb::arg("lengths"))
      .def("__len__", [](const PyStream& self) { return self.stream.size(); })
      .def_prop_ro("num_bytes",
                   [](const PyStream& self) {
                     int64_t bytes = 0;
                     for (int64_t length : self.stream.length) bytes += length;
                     return bytes;
                   })
      .def("chunks", [](const PyStream& self) {
        // Copies of all chunks, for codecs in other libraries.
        nb::list views;
        for (size_t i = 0; i < self.stream.size(); ++i) {
          Bytes chunk = self.stream.chunk(i);
          views.append(nb::bytes(reinterpret_cast<const char*>(chunk.data), chunk.size));
        }
        return views;
      });

  m.def(
      "locate_chunks",
      [](nb::handle words, bool large, int64_t num_values, int64_t num_bytes) {
        Source source(words);
        ChunkPlaces places = without_gil([&] { return locate_chunks(source.bytes(), large, num_values, num_bytes); });
        return std::make_tuple(std::move(places.position), std::move(places.first_value));
      },
      nb::arg("words"), nb::arg("large"), nb::arg("num_values"), nb::arg("num_bytes"));
  m.def(
      "parse_chunks",
      [](nb::handle data, nb::handle offsets, const Counts& counts, bool has_rep, bool has_def, size_t num_buffers,
         bool large) {
        auto owner = std::make_shared<Source>(data);
        std::vector<int64_t> positions = read_int64(offsets);
        Chunks chunks = without_gil(
            [&] { return parse_chunks(owner->bytes(), positions, counts, {has_rep, has_def, large, num_buffers}); });
        std::vector<PyStream> buffers;
        buffers.reserve(chunks.buffers.size());
        for (Stream& stream : chunks.buffers) {
          buffers.push_back({owner, std::move(stream)});
        }
        return std::make_tuple(std::move(chunks.num_levels), PyStream{owner, std::move(chunks.rep)},
                               PyStream{owner, std::move(chunks.def)}, std::move(buffers));
      },
      nb::arg("data"), nb::arg("offsets"), nb::arg("counts"), nb::arg("has_rep"), nb::arg("has_def"),
      nb::arg("num_buffers"), nb::arg("large"));

  m.def(
      "join_fixed",
      [](const PyStream& stream, const Counts& counts, size_t width) {
        return without_gil([&] { return join_fixed(stream.stream, counts, width); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("width"));
  m.def(
      "join_bits",
      [](const PyStream& stream, const Counts& counts) {
        return without_gil([&] { return join_bits(stream.stream, counts); });
      },
      nb::arg("stream"), nb::arg("counts"));
  m.def(
      "copy_bits",
      [](nb::handle bits, size_t start, size_t n) {
        Source source(bits);
        return without_gil([&] { return copy_bits(source.bytes(), start, n); });
      },
      nb::arg("bits"), nb::arg("start"), nb::arg("num_bits"));
  m.def(
      "bytes_to_bits",
      [](nb::handle bytes) {
        Source source(bytes);
        return without_gil([&] { return bytes_to_bits(source.bytes()); });
      },
      nb::arg("values"));
  m.def(
      "repeat_value",
      [](nb::handle value, size_t n) {
        Source source(value);
        return without_gil([&] { return repeat_value(source.bytes(), n); });
      },
      nb::arg("value"), nb::arg("num_values"));

  m.def(
      "unpack_inline",
      [](const PyStream& stream, const Counts& counts, unsigned word_bits) {
        return without_gil([&] { return unpack_inline(stream.stream, counts, word_bits); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("word_bits"));
  m.def(
      "unpack_out_of_line",
      [](const PyStream& stream, const Counts& counts, unsigned word_bits, unsigned bits) {
        return without_gil([&] { return unpack_out_of_line(stream.stream, counts, word_bits, bits); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("word_bits"), nb::arg("bits"));

  m.def(
      "expand_runs",
      [](const PyStream& values, const PyStream& lengths, const Counts& counts, unsigned word_bits) {
        return without_gil([&] { return expand_runs(values.stream, lengths.stream, counts, word_bits); });
      },
      nb::arg("values"), nb::arg("lengths"), nb::arg("counts"), nb::arg("word_bits"));
  m.def(
      "split_runs",
      [](const PyStream& blocks, const Counts& counts) {
        PyStream values{blocks.owner, {}}, lengths{blocks.owner, {}};
        split_runs(blocks.stream, counts, values.stream, lengths.stream);
        return std::make_pair(std::move(values), std::move(lengths));
      },
      nb::arg("blocks"), nb::arg("counts"));

  m.def(
      "join_byte_streams",
      [](const PyStream& stream, const Counts& counts, size_t width) {
        return without_gil([&] { return join_byte_streams(stream.stream, counts, width); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("width"));

  m.def(
      "join_variable",
      [](const PyStream& stream, const Counts& counts, unsigned offset_bits) {
        return without_gil([&] { return as_tuple(join_variable(stream.stream, counts, offset_bits)); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("offset_bits"));
  m.def(
      "join_variable_blocks",
      [](const PyStream& stream, const Counts& counts, unsigned offset_bits) {
        return without_gil([&] { return as_tuple(join_variable_blocks(stream.stream, counts, offset_bits)); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("offset_bits"));
  m.def(
      "repeat_variable",
      [](nb::handle value, size_t n, unsigned offset_bits) {
        Source source(value);
        return without_gil([&] { return as_tuple(repeat_variable(source.bytes(), n, offset_bits)); });
      },
      nb::arg("value"), nb::arg("num_values"), nb::arg("offset_bits"));

  nb::class_<SymbolTable>(m, "SymbolTable")
      .def(
          "__init__",
          [](SymbolTable* self, nb::handle table, const std::optional<std::string>& way) {
            SymbolTable parsed = parse_symbol_table(Source(table).bytes());
            if (way.has_value()) parsed.way = &expand_way(*way);
            new (self) SymbolTable(parsed);
          },
          nb::arg("table"), nb::arg("way") = nb::none())
      .def_prop_ro("codes", [](const SymbolTable& self) { return self.codes; });
  m.def("expand_ways", [] {
    std::vector<std::string> names;
    for (const ExpandWay& each : expand_ways()) names.emplace_back(each.name);
    return names;
  });
  m.def(
      "expand_symbols",
      [](const SymbolTable& table, const PyStream& stream, const Counts& counts, unsigned offset_bits) {
        return without_gil([&] { return as_tuple(expand_symbols(table, stream.stream, counts, offset_bits)); });
      },
      nb::arg("table"), nb::arg("stream"), nb::arg("counts"), nb::arg("offset_bits"));
  m.def(
      "expand_page_symbols",
      [](nb::list tables, nb::handle num_chunks, const PyStream& stream, const Counts& counts, unsigned offset_bits) {
        std::vector<const SymbolTable*> of_pages;
        for (nb::handle table : tables) {
          of_pages.push_back(&nb::cast<const SymbolTable&>(table, false));  // refuses None
        }
        std::vector<int64_t> chunks = read_int64(num_chunks);
        return without_gil(
            [&] { return as_tuple(expand_symbols(of_pages, chunks, stream.stream, counts, offset_bits)); });
      },
      nb::arg("tables"), nb::arg("num_chunks"), nb::arg("stream"), nb::arg("counts"), nb::arg("offset_bits"));
  m.def(
      "expand_symbol_values",
      [](const SymbolTable& table, nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits) {
        Source offset_source(offsets), data_source(data);
        return without_gil([&] {
          return as_tuple(expand_symbols(table, offset_source.bytes(), data_source.bytes(), num_values, offset_bits));
        });
      },
      nb::arg("table"), nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"));

  m.def(
      "inflate",
      [](const PyStream& stream, const char* compression) {
        Compressor compressor = compressor_of(compression);
        Block out(0);
        Stream inflated = without_gil([&] { return inflate(stream.stream, compressor, out); });
        if (compressor == Compressor::none) {
          return stream;
        }
        return PyStream{std::make_shared<Source>(nb::cast(std::move(out))), std::move(inflated)};
      },
      nb::arg("chunks"), nb::arg("compression"));

  m.def(
      "inflate_values",
      [](nb::handle offsets, nb::handle data, size_t num_values, unsigned offset_bits, const char* compression) {
        Source offset_source(offsets), data_source(data);
        Compressor compressor = compressor_of(compression);
        return without_gil([&] {
          return as_tuple(
              inflate_values(offset_source.bytes(), data_source.bytes(), num_values, offset_bits, compressor));
        });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"), nb::arg("compression"));

  m.def(
      "decode_levels",
      [](const PyStream& stream, const Counts& counts, const char* coding, unsigned bits) {
        LevelEncoding encoding = level_encoding(coding, bits);
        return without_gil([&] { return decode_levels(stream.stream, counts, encoding); });
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("coding"), nb::arg("bits"));
  m.def(
      "decode_validity",
      [](const PyStream& stream, const Counts& counts, const char* coding, unsigned bits, uint16_t limit,
         uint16_t highest) {
        LevelEncoding encoding = level_encoding(coding, bits);
        Bitmap bitmap = without_gil([&] { return decode_validity(stream.stream, counts, encoding, limit, highest); });
        return std::make_tuple(std::move(bitmap.bits), bitmap.num_nulls);
      },
      nb::arg("stream"), nb::arg("counts"), nb::arg("coding"), nb::arg("bits"), nb::arg("limit"), nb::arg("highest"));
  m.def(
      "find_rows",
      [](nb::handle rep, nb::handle def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows) {
        Source rep_source(rep);
        OptionalSource def_source(def);
        RowRange range = without_gil([&] {
          return find_rows(rep_source.bytes(), def_source.bytes(), max_rep, max_visible, skip_rows, num_rows);
        });
        return std::make_tuple(range.entry_begin, range.entry_end, range.value_begin, range.value_end,
                               range.num_values);
      },
      nb::arg("rep"), nb::arg("def_").none(), nb::arg("max_rep"), nb::arg("max_visible"), nb::arg("skip_rows"),
      nb::arg("num_rows"));
  m.def(
      "item_validity",
      [](nb::handle def, nb::handle depth_of, size_t depth, uint16_t limit) {
        Source def_source(def), depth_source(depth_of);
        Bitmap bitmap =
            without_gil([&] { return item_validity(def_source.bytes(), depth_source.bytes(), depth, limit); });
        return std::make_tuple(std::move(bitmap.bits), bitmap.length, bitmap.num_nulls);
      },
      nb::arg("def_"), nb::arg("depth_of"), nb::arg("depth"), nb::arg("limit"));
  m.def(
      "list_layer",
      [](nb::handle rep, nb::handle def, int null, int empty, int upper, int shown, int max_rep, unsigned offset_bits,
         bool with_levels) {
        Source rep_source(rep);
        OptionalSource def_source(def);
        ListLayer layer = without_gil([&] {
          return list_layer(rep_source.bytes(), def_source.bytes(), {null, empty, upper, shown, max_rep}, offset_bits,
                            with_levels);
        });
        return std::make_tuple(std::move(layer.offsets), std::move(layer.validity), layer.length, layer.num_nulls,
                               layer.num_children, std::move(layer.rep), std::move(layer.def));
      },
      nb::arg("rep"), nb::arg("def_").none(), nb::arg("null"), nb::arg("empty"), nb::arg("upper"), nb::arg("shown"),
      nb::arg("max_rep"), nb::arg("offset_bits"), nb::arg("with_levels"));

  m.def(
      "unzip_fixed",
      [](nb::handle data, unsigned rep_bits, unsigned def_bits, uint16_t max_visible, size_t width) {
        Source source(data);
        ZippedFixed zipped =
            without_gil([&] { return unzip_fixed(source.bytes(), {rep_bits, def_bits, max_visible}, width); });
        return std::make_tuple(std::move(zipped.levels.rep), std::move(zipped.levels.def), zipped.levels.num_entries,
                               std::move(zipped.values), zipped.num_values);
      },
      nb::arg("data"), nb::arg("rep_bits"), nb::arg("def_bits"), nb::arg("max_visible"), nb::arg("width"));
  m.def(
      "unzip_variable",
      [](nb::handle data, unsigned rep_bits, unsigned def_bits, uint16_t max_visible, unsigned length_bits) {
        Source source(data);
        ZippedVariable zipped =
            without_gil([&] { return unzip_variable(source.bytes(), {rep_bits, def_bits, max_visible}, length_bits); });
        return std::make_tuple(std::move(zipped.levels.rep), std::move(zipped.levels.def), zipped.levels.num_entries,
                               std::move(zipped.values.offsets), std::move(zipped.values.data),
                               zipped.values.num_values);
      },
      nb::arg("data"), nb::arg("rep_bits"), nb::arg("def_bits"), nb::arg("max_visible"), nb::arg("length_bits"));

  m.def(
      "check_indices",
      [](nb::handle indices, size_t num_values, unsigned index_bits, size_t num_items) {
        Source source(indices);
        without_gil([&] {
          check_indices(source.bytes(), num_values, index_bits, num_items);
          return 0;
        });
      },
      nb::arg("indices"), nb::arg("num_values"), nb::arg("index_bits"), nb::arg("num_items"));
  m.def(
      "gather_fixed",
      [](nb::handle indices, size_t num_values, unsigned index_bits, nb::handle items, size_t width) {
        Source index_source(indices), item_source(items);
        return without_gil(
            [&] { return gather_fixed(index_source.bytes(), num_values, index_bits, item_source.bytes(), width); });
      },
      nb::arg("indices"), nb::arg("num_values"), nb::arg("index_bits"), nb::arg("items"), nb::arg("width"));
  m.def(
      "gather_bits",
      [](nb::handle indices, size_t num_values, unsigned index_bits, nb::handle bits, size_t num_items) {
        Source index_source(indices), bit_source(bits);
        GatheredBits gathered = without_gil(
            [&] { return gather_bits(index_source.bytes(), num_values, index_bits, bit_source.bytes(), num_items); });
        return std::make_tuple(std::move(gathered.bits), gathered.num_unset);
      },
      nb::arg("indices"), nb::arg("num_values"), nb::arg("index_bits"), nb::arg("bits"), nb::arg("num_items"));
  m.def(
      "gather_variable",
      [](nb::handle indices, size_t num_values, unsigned index_bits, nb::handle offsets, nb::handle data,
         size_t num_items, unsigned offset_bits) {
        Source index_source(indices), offset_source(offsets), data_source(data);
        return without_gil([&] {
          return as_tuple(gather_variable(index_source.bytes(), num_values, index_bits, offset_source.bytes(),
                                          data_source.bytes(), num_items, offset_bits));
        });
      },
      nb::arg("indices"), nb::arg("num_values"), nb::arg("index_bits"), nb::arg("offsets"), nb::arg("data"),
      nb::arg("num_items"), nb::arg("offset_bits"));

  m.def(
      "split_null_ends",
      [](nb::handle ends, size_t num_values, bool has_previous, uint64_t adjustment, uint64_t limit,
         unsigned offset_bits) {
        Source source(ends);
        NullEnds split = without_gil(
            [&] { return split_null_ends(source.bytes(), num_values, has_previous, adjustment, limit, offset_bits); });
        return std::make_tuple(std::move(split.offsets), std::move(split.validity), split.num_nulls, split.begin,
                               split.end);
      },
      nb::arg("ends"), nb::arg("num_values"), nb::arg("has_previous"), nb::arg("adjustment"), nb::arg("limit"),
      nb::arg("offset_bits"));
  m.def(
      "join_null_ends",
      [](nb::handle ends, nb::handle num_values, nb::handle adjustments, nb::handle limits, unsigned offset_bits) {
        Source source(ends);
        std::vector<int64_t> counts = read_int64(num_values), added = read_int64(adjustments),
                             most = read_int64(limits);
        JoinedEnds joined =
            without_gil([&] { return join_null_ends(source.bytes(), counts, added, most, offset_bits); });
        Block sizes(8 * joined.sizes.size());
        copy_bytes(sizes.data(), joined.sizes.data(), sizes.size());
        return std::make_tuple(std::move(joined.offsets), std::move(joined.validity), joined.num_nulls,
                               std::move(sizes));
      },
      nb::arg("ends"), nb::arg("num_values"), nb::arg("adjustments"), nb::arg("limits"), nb::arg("offset_bits"));
  m.def(
      "unpack_bit_stream",
      [](nb::handle data, size_t start, size_t num_values, unsigned bits, unsigned word_bits, bool is_signed) {
        Source source(data);
        return without_gil(
            [&] { return unpack_bit_stream(source.bytes(), start, num_values, bits, word_bits, is_signed); });
      },
      nb::arg("data"), nb::arg("start"), nb::arg("num_values"), nb::arg("bits"), nb::arg("word_bits"),
      nb::arg("is_signed"));

  m.def(
      "split_rows",
      [](nb::handle rows, size_t num_rows, const std::vector<size_t>& widths) {
        Source source(rows);
        return without_gil([&] { return split_rows(source.bytes(), num_rows, widths); });
      },
      nb::arg("rows"), nb::arg("num_rows"), nb::arg("widths"));
  m.def(
      "join_row_bits",
      [](nb::handle rows, size_t num_rows, size_t bits_per_row) {
        Source source(rows);
        return without_gil([&] { return join_row_bits(source.bytes(), num_rows, bits_per_row); });
      },
      nb::arg("rows"), nb::arg("num_rows"), nb::arg("bits_per_row"));
  m.def(
      "split_variable_rows",
      [](nb::handle offsets, nb::handle data, size_t num_rows, unsigned offset_bits,
         const std::vector<std::pair<size_t, unsigned>>& fields) {
        Source offset_source(offsets), data_source(data);
        std::vector<PackedField> packed;
        for (auto [width, length_bits] : fields) packed.push_back({width, length_bits});
        std::vector<PackedColumn> columns = without_gil([&] {
          return split_variable_rows(offset_source.bytes(), data_source.bytes(), num_rows, offset_bits, packed);
        });
        std::vector<std::tuple<Block, Block>> result;  // (values, empty) or (offsets, data)
        for (size_t k = 0; k < columns.size(); ++k) {
          if (packed[k].length_bits == 0) {
            result.emplace_back(std::move(columns[k].fixed), Block(0));
          } else {
            result.push_back(as_tuple(std::move(columns[k].variable)));
          }
        }
        return result;
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_rows"), nb::arg("offset_bits"), nb::arg("fields"));

  m.def(
      "crc32c",
      [](nb::handle data, uint32_t initial) {
        Source source(data);
        return without_gil([&] { return crc32c(source.bytes(), initial); });
      },
      nb::arg("data"), nb::arg("initial") = 0);
  m.def(
      "crc32c_by",
      [](const std::string& way, nb::handle data, uint32_t initial) {
        Source source(data);
        for (const CrcWay& each : crc_ways()) {
          if (way == each.name) return without_gil([&] { return ~each.sum(source.bytes(), ~initial); });
        }
        throw std::invalid_argument("no way to a CRC-32C on this processor: " + way);
      },
      nb::arg("way"), nb::arg("data"), nb::arg("initial") = 0);
  m.def("crc32c_ways", [] {
    std::vector<std::string> names;
    for (const CrcWay& each : crc_ways()) names.emplace_back(each.name);
    return names;
  });
  m.def(
      "write_checked",
      [](int descriptor, nb::handle data, uint32_t crc) {
        Source source(data);
        CheckedWrite result = without_gil([&] { return write_checked(descriptor, source.bytes(), crc); });
        return std::make_tuple(result.written, result.crc, result.error);
      },
      nb::arg("descriptor"), nb::arg("data"), nb::arg("crc"));
  m.def(
      "start_write_back",
      [](int descriptor, int64_t offset, int64_t length) {
        return without_gil([&] { return start_write_back(descriptor, offset, length); });
      },
      nb::arg("descriptor"), nb::arg("offset"), nb::arg("length"));

  bind_encoders(m);
  bind_filters(m);
  bind_index(m);
  bind_json(m);
  bind_byte_functions(m);
  bind_picks(m);
  bind_miniblock(m);
  bind_file_pages(m);
  bind_vector_index(m);
  bind_scalar_index(m);
  bind_text(m);
  bind_vectors(m);
}
