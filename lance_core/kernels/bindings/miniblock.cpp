// Python bindings of the kernels that read and decode whole rows of pages.
#include "pages/miniblock.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <variant>

#include "bindings/bindings.hpp"
#include "filters/kept_rows.hpp"
#include "filters/matching.hpp"
#include "pages/arrow_rows.hpp"
#include "pages/flat_page.hpp"
#include "take/rows.hpp"

namespace lance {
namespace {

// Pages, and the objects that own their memory.
struct PyMiniBlocks {
  MiniBlocks page;
  std::vector<std::shared_ptr<Source>> sources;
  nb::object symbols;
  nb::object items = nb::none();
};

ValueCoding value_coding(const std::string& name) {
  if (name == "flat") return ValueCoding::flat;
  if (name == "inline_bitpacking") return ValueCoding::bitpacked_inline;
  if (name == "byte_stream_split") return ValueCoding::byte_streams;
  if (name == "rle") return ValueCoding::runs;
  if (name == "variable") return ValueCoding::variable;
  if (name == "fsst") return ValueCoding::fsst;
  throw nb::value_error("unknown coding of values");
}

using Levels = std::tuple<std::string, unsigned>;
using PyItems = std::tuple<nb::object, nb::object, size_t, unsigned>;

void make_page(PyMiniBlocks* self, size_t num_rows, nb::handle positions, nb::handle lengths, nb::handle first_values,
               bool large, const char* compression, const std::string& coding, unsigned bits,
               const std::optional<Levels>& def, uint16_t max_def, bool has_nulls, nb::object symbols,
               const std::optional<PyItems>& items) {
  new (self) PyMiniBlocks{};
  MiniBlocks& page = self->page;
  page.num_rows = num_rows;
  page.position = read_int64(positions);
  page.length = read_int64(lengths);
  page.first_value = read_int64(first_values);
  if (page.position.empty() || page.length.size() != page.position.size() ||
      page.first_value.size() != page.position.size() + 1) {
    corrupt("%zu positions, %zu lengths and %zu counts of chunks", page.position.size(), page.length.size(),
            page.first_value.size());
  }
  for (size_t i = 0; i < page.length.size(); ++i) {
    int64_t count = page.first_value[i + 1] - page.first_value[i];
    if (page.length[i] < 0 || count < 0 || (page.length[i] == 0 && count != 0)) {
      corrupt("a chunk of %lld bytes for %lld values", static_cast<long long>(page.length[i]),
              static_cast<long long>(count));
    }
  }
  page.coding = value_coding(coding);
  page.bits = bits;
  page.compressor = compressor_of(compression);
  page.shape = {false, def.has_value(), large, page.coding == ValueCoding::runs ? size_t{2} : size_t{1}};
  if (def) {
    page.def = level_encoding(std::get<0>(*def).c_str(), std::get<1>(*def));
  }
  page.max_def = max_def;
  page.has_nulls = has_nulls;
  if (page.coding == ValueCoding::fsst) {
    page.symbols = nb::cast<const SymbolTable*>(symbols);
    self->symbols = std::move(symbols);
  }
  if (items) {
    const auto& [offsets, data, count, item_bits] = *items;
    self->sources.push_back(std::make_shared<Source>(data));
    page.items = Items{{}, self->sources[0]->bytes(), count, 0, item_bits};
    if (!offsets.is_none()) {
      self->sources.push_back(std::make_shared<Source>(offsets));
      page.items = Items{self->sources[1]->bytes(), self->sources[0]->bytes(), count, item_bits, 0};
    } else if (item_bits == 0 || item_bits % 8 != 0 || page.items->data.size / (item_bits / 8) != count) {
      corrupt("%zu items of %u bits in %zu bytes", count, item_bits, page.items->data.size);
    }
    self->items = nb::cast(*items);
  }
}

void set_lists(PyMiniBlocks& self, nb::handle first_rows, nb::handle ended_rows, const Levels& rep, int null, int empty,
               int upper, int shown, uint16_t max_visible, nb::handle depth_of, unsigned offset_bits) {
  MiniBlocks& page = self.page;
  ListShape lists;
  lists.first_row = read_int64(first_rows);
  lists.ended_rows = read_int64(ended_rows);
  if (lists.first_row.size() != page.first_value.size() || lists.ended_rows.size() != page.first_value.size()) {
    corrupt("%zu and %zu numbers of rows for %zu chunks", lists.first_row.size(), lists.ended_rows.size(),
            page.position.size());
  }
  lists.rep = level_encoding(std::get<0>(rep).c_str(), std::get<1>(rep));
  lists.levels = {null, empty, upper, shown, 1};
  lists.max_visible = max_visible;
  Source depths(depth_of);
  lists.depth_of.assign(depths.bytes().data, depths.bytes().data + depths.bytes().size);
  lists.offset_bits = offset_bits;
  page.shape.has_rep = true;
  page.lists = std::move(lists);
}

nb::object optional_block(std::optional<Block>& block) { return block ? nb::cast(std::move(*block)) : nb::none(); }

nb::object as_object(std::optional<DecodedRows>& rows) {
  if (!rows) {
    return nb::none();
  }
  return nb::make_tuple(rows->first_value, rows->num_values, optional_block(rows->validity),
                        nb::cast(std::move(rows->values)), optional_block(rows->data),
                        optional_block(rows->list_offsets), optional_block(rows->list_validity));
}

// Columns of rows, until Arrow imports them.
struct PyArrowRows {
  std::vector<bool> is_there;  // of each requested column
  ArrowArray rows{};
  uint64_t num_bytes = 0;     // bytes of the values of all batches
  uint64_t largest_bits = 0;  // bits of the values of the largest batch of several rows

  PyArrowRows() = default;
  PyArrowRows(const PyArrowRows&) = delete;
  PyArrowRows& operator=(const PyArrowRows&) = delete;
  ~PyArrowRows() {
    if (rows.release != nullptr) {
      rows.release(&rows);
    }
  }
};

// An item of a list may be None, which nanobind accepts, unlike an argument.
template <class T>
T& given(T* object) {
  if (object == nullptr) {
    throw nb::type_error("None, where an object of the kernels is expected");
  }
  return *object;
}

// A page of a 2.0 file, and the objects that own its memory.
struct PyFlatPage {
  FlatPage page;
  std::vector<std::shared_ptr<Source>> sources;
  nb::object items = nb::none();  // as they were given
  nb::object item_pages;
};

using PyPart = std::pair<size_t, size_t>;
using PyText = std::tuple<PyPart, uint64_t, unsigned>;
using PyStrings = std::tuple<nb::object, nb::object, size_t, unsigned>;
using PyLists = std::tuple<nb::list, std::vector<size_t>, size_t, size_t, uint64_t, unsigned>;

void make_flat_page(PyFlatPage* self, size_t num_rows, unsigned bits, PyPart values,
                    const std::optional<PyPart>& validity, const std::optional<PyText>& text,
                    const std::optional<PyStrings>& items, const std::optional<PyLists>& lists) {
  new (self) PyFlatPage{{num_rows, bits, {values.first, values.second}, {}, {}, {}, {}}, {}, nb::none(), {}};
  if (validity) {
    self->page.validity = FilePart{validity->first, validity->second};
  }
  if (text) {
    const auto& [data, null_adjustment, offset_bits] = *text;
    self->page.text = FlatText{{data.first, data.second}, null_adjustment, offset_bits};
  }
  if (items) {
    const auto& [offsets, data, count, offset_bits] = *items;
    self->sources = {std::make_shared<Source>(offsets), std::make_shared<Source>(data)};
    self->page.items = Items{self->sources[0]->bytes(), self->sources[1]->bytes(), count, offset_bits, 0};
    self->items = nb::cast(*items);
  }
  if (lists) {
    const auto& [pages, starts, first_item, num_items, null_adjustment, offset_bits] = *lists;
    self->page.lists = FlatLists{{}, starts, first_item, num_items, null_adjustment, offset_bits};
    for (nb::handle page : pages) {
      self->page.lists->pages.push_back(&nb::cast<const PyFlatPage&>(page).page);
    }
    self->item_pages = nb::tuple(pages);
  }
  check_page(self->page);
}

// The pages of a column, and the objects that own them.
struct PyColumnPages {
  ColumnPages column;
  nb::object pages;
  nb::object file;
};

void make_column(PyColumnPages* self, nb::list pages, nb::handle starts, nb::object file) {
  new (self) PyColumnPages{};
  ColumnPages& column = self->column;
  column.starts = read_int64(starts);
  for (nb::handle page : pages) {
    bool is_flat = nb::isinstance<PyFlatPage>(page);
    bool is_known = !page.is_none() && !is_flat;
    column.pages.push_back(is_known ? &nb::cast<const PyMiniBlocks&>(page).page : nullptr);
    column.flat_pages.push_back(is_flat ? &nb::cast<const PyFlatPage&>(page).page : nullptr);
  }
  if (column.pages.empty() || column.starts.size() != column.pages.size() + 1 || column.starts[0] != 0) {
    corrupt("%zu pages that begin at %zu rows", column.pages.size(), column.starts.size());
  }
  for (size_t i = 0; i < column.pages.size(); ++i) {
    if (column.starts[i] > column.starts[i + 1]) {
      corrupt("page %zu begins behind its end", i);
    }
  }
  column.file = &nb::cast<PieceReader&>(file);
  self->pages = std::move(pages);
  self->file = std::move(file);
}

using PyRowsToTake = std::tuple<std::vector<const PyColumnPages*>, nb::object, nb::object>;

// Pages, their file, and a range of rows.
using PyPages = std::variant<const PyMiniBlocks*, const PyFlatPage*>;
using PyPiece = std::tuple<PyPages, PieceReader*, size_t, size_t>;

// Calls a function with the pages as they are: mini-blocks or a page of a 2.0 file.
template <class Act>
auto with_pages(const PyPages& pages, Act act) {
  return std::visit([&](auto* some) { return act(given(some).page); }, pages);
}

void require_given(const std::vector<PyPiece>& pieces) {
  for (const auto& [page, file, start, end] : pieces) {
    with_pages(page, [](const auto&) {});
    given(file);
  }
}

// Checks that `cuts` are valid starts and ends of batches of the rows.
void require_batches(const std::vector<PyPiece>& pieces, const std::vector<int64_t>& cuts) {
  if (pieces.empty() || cuts.size() < 2 || cuts.front() != 0 || !std::is_sorted(cuts.begin(), cuts.end())) {
    throw nb::value_error("no columns, or cuts that are not ascending from 0");
  }
  for (const auto& [page, file, start, end] : pieces) {
    if (end - start != static_cast<size_t>(cuts.back())) {
      throw nb::value_error("columns have another number of rows than the cuts");
    }
  }
}

// Wanted rows, and the number of the first row of their piece.
using PyKept = std::pair<nb::object, int64_t>;

DecodedRows keep(const PyPiece& piece, const KeptRows& kept, const DecodedRows& rows) {
  const auto& [pages, file, start, end] = piece;
  size_t num_rows = end - start;
  return with_pages(
      pages, [&](const auto& page) { return keep_rows(rows, num_rows, kept, page.value_bits(), page.list_bits()); });
}

// Calls `decode(i, page, file, start, end)` for each piece. A piece that cannot be decoded, for any reason, is none.
template <class Decode>
std::vector<std::optional<DecodedRows>> each_piece(const std::vector<PyPiece>& pieces, Decode decode) {
  std::vector<std::optional<DecodedRows>> decoded(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [page, file, start, end] = pieces[i];
    PieceReader& reader = *file;
    size_t from = start, to = end;
    try {
      decoded[i] = with_pages(page, [&](const auto& one) { return decode(i, one, reader, from, to); });
    } catch (const CorruptData&) {
    } catch (const OffsetOverflow&) {
    }
  }
  return decoded;
}

// Decodes the rows of each piece, and calls `finish(i, rows)` for the result of the `i`-th.
template <class Finish>
std::vector<std::optional<DecodedRows>> decode_pieces(const std::vector<PyPiece>& pieces, Finish finish) {
  Scratch scratch;
  return each_piece(pieces, [&](size_t i, const auto& page, PieceReader& file, size_t start, size_t end) {
    return finish(i, decode_rows(page, file, start, end, scratch));
  });
}

nb::list as_list(std::vector<std::optional<DecodedRows>>& decoded) {
  nb::list results;
  for (std::optional<DecodedRows>& rows : decoded) {
    results.append(as_object(rows));
  }
  return results;
}

// Returns the bitmap of the rows that match, and their number; none if the pages cannot be decoded.
template <class Match>
nb::object matched_rows(Match match) {
  auto matched = without_gil([&]() -> std::optional<MatchedRows> {
    try {
      return match();
    } catch (const CorruptData&) {
      return std::nullopt;
    }
  });
  return matched ? nb::object(nb::make_tuple(nb::cast(std::move(matched->bits)), matched->num_matching)) : nb::none();
}

bool add_column(ArrowColumns& columns, DecodedRows rows, const PyPiece& piece) {
  const auto& [page, file, start, end] = piece;
  try {
    unsigned bits = with_pages(page, [](const auto& one) { return one.value_bits(); });
    columns.add(std::move(rows), bits, end - start);
    return true;
  } catch (const CorruptData&) {
    return false;
  }
}

}  // namespace

void bind_miniblock(nb::module_& m) {
  nb::class_<PyMiniBlocks>(m, "MiniBlocks")
      .def("__init__", &make_page, nb::arg("num_rows"), nb::arg("positions"), nb::arg("lengths"),
           nb::arg("first_values"), nb::arg("large"), nb::arg("compression"), nb::arg("coding"), nb::arg("bits"),
           nb::arg("def_").none(), nb::arg("max_def"), nb::arg("has_nulls"), nb::arg("symbols").none(),
           nb::arg("items").none())
      .def_prop_ro("can_take", [](const PyMiniBlocks& self) { return self.page.can_take(); })
      .def_prop_ro("items", [](const PyMiniBlocks& self) { return self.items; })
      .def("set_lists", &set_lists, nb::arg("first_rows"), nb::arg("ended_rows"), nb::arg("rep"), nb::arg("null"),
           nb::arg("empty"), nb::arg("upper"), nb::arg("shown"), nb::arg("max_visible"), nb::arg("depth_of"),
           nb::arg("offset_bits"));
  nb::class_<PyFlatPage>(m, "FlatPage")
      .def("__init__", &make_flat_page, nb::arg("num_rows"), nb::arg("bits"), nb::arg("values"),
           nb::arg("validity").none() = nb::none(), nb::arg("text").none() = nb::none(),
           nb::arg("items").none() = nb::none(), nb::arg("lists").none() = nb::none())
      .def_prop_ro("items", [](const PyFlatPage& self) { return self.items; });
  m.def(
      "decode_rows",
      [](const std::vector<PyPiece>& pieces, const std::vector<std::optional<PyKept>>& kept) {
        require_given(pieces);
        if (kept.size() != pieces.size()) {
          throw nb::value_error("another number of pieces than of wanted rows");
        }
        std::vector<std::unique_ptr<Source>> sources(kept.size());
        for (size_t i = 0; i < kept.size(); ++i) {
          if (kept[i]) {
            sources[i] = std::make_unique<Source>(kept[i]->first);
          }
        }
        auto decoded = without_gil([&] {
          return decode_pieces(pieces, [&](size_t i, DecodedRows rows) {
            return kept[i] ? keep(pieces[i], {sources[i]->bytes(), kept[i]->second}, rows) : std::move(rows);
          });
        });
        return as_list(decoded);
      },
      nb::arg("pieces"), nb::arg("kept"));
  m.def(
      "decode_masked",
      [](const std::vector<PyPiece>& pieces, nb::handle mask, const std::vector<size_t>& starts) {
        require_given(pieces);
        if (starts.size() != pieces.size()) {
          throw nb::value_error("another number of pieces than of their first bits");
        }
        Source source(mask);
        auto decoded = without_gil([&] {
          return each_piece(pieces, [&](size_t i, const auto& page, PieceReader& file, size_t start, size_t end) {
            return decode_masked(page, file, start, end, {source.bytes(), starts[i]});
          });
        });
        return as_list(decoded);
      },
      nb::arg("pieces"), nb::arg("mask"), nb::arg("starts"));
  m.def(
      "match_intervals",
      [](const PyPiece& piece, unsigned bits, bool is_float,
         const std::vector<std::tuple<uint64_t, uint64_t, bool>>& bounds, bool is_outside) {
        bool is_known = is_float ? bits == 32 || bits == 64 : bits == 8 || bits == 16 || bits == 32 || bits == 64;
        if (!is_known) {
          throw nb::value_error("numbers of other bits");
        }
        Intervals intervals{bits, is_float, {}, is_outside};
        for (const auto& [lower, upper, has_above] : bounds) intervals.parts.push_back({lower, upper, has_above});
        PieceReader& file = given(std::get<1>(piece));
        size_t start = std::get<2>(piece), end = std::get<3>(piece);
        return with_pages(std::get<0>(piece), [&](const auto& page) {
          return matched_rows([&] { return match_intervals(page, file, start, end, intervals); });
        });
      },
      nb::arg("piece"), nb::arg("bits"), nb::arg("is_float"), nb::arg("bounds"), nb::arg("is_outside"));
  nb::class_<NumberSet>(m, "NumberSet")
      .def(
          "__init__",
          [](NumberSet* self, nb::handle numbers, unsigned bits) {
            if (bits != 8 && bits != 16 && bits != 32 && bits != 64) throw nb::value_error("numbers of other bits");
            Source source(numbers);
            Bytes bytes = source.bytes();
            if (bytes.size % (bits / 8) != 0) corrupt("%zu bytes of numbers of %u bits", bytes.size, bits);
            new (self) NumberSet(without_gil([&] { return NumberSet(bytes.data, bytes.size / (bits / 8), bits); }));
          },
          nb::arg("numbers"), nb::arg("bits"))
      .def(
          "find",
          [](const NumberSet& self, nb::handle numbers) {
            Source source(numbers);
            size_t count = source.bytes().size / (self.bits() / 8);
            Block words((count + 63) / 64 * 8);
            without_gil([&] { self.find(source.bytes().data, count, reinterpret_cast<uint64_t*>(words.data())); });
            return words;
          },
          nb::arg("numbers"));
  m.def(
      "match_listed",
      [](const PyPiece& piece, const NumberSet& numbers, bool is_outside) {
        PieceReader& file = given(std::get<1>(piece));
        size_t start = std::get<2>(piece), end = std::get<3>(piece);
        return with_pages(std::get<0>(piece), [&](const auto& page) {
          return matched_rows([&] { return match_listed(page, file, start, end, numbers, is_outside); });
        });
      },
      nb::arg("piece"), nb::arg("numbers"), nb::arg("is_outside"));
  m.def(
      "match_remainder",
      [](const PyPiece& piece, unsigned bits, bool is_signed, uint64_t divisor, uint64_t rest, bool is_outside) {
        require_divisor(bits, is_signed, divisor);
        PieceReader& file = given(std::get<1>(piece));
        size_t start = std::get<2>(piece), end = std::get<3>(piece);
        Remainder remainder{bits, is_signed, divisor, rest, is_outside};
        return with_pages(std::get<0>(piece), [&](const auto& page) {
          return matched_rows([&] { return match_remainder(page, file, start, end, remainder); });
        });
      },
      nb::arg("piece"), nb::arg("bits"), nb::arg("is_signed"), nb::arg("divisor"), nb::arg("rest"),
      nb::arg("is_outside"));
  m.def(
      "match_items",
      [](const PyPiece& piece, nb::handle items, bool null) {
        Source source(items);
        MatchingItems matching{source.bytes(), null};
        PieceReader& file = given(std::get<1>(piece));
        size_t start = std::get<2>(piece), end = std::get<3>(piece);
        return with_pages(std::get<0>(piece), [&](const auto& page) {
          return matched_rows([&] { return match_items(page, file, start, end, matching); });
        });
      },
      nb::arg("piece"), nb::arg("items"), nb::arg("null"));
  m.def(
      "decode_batches",
      [](const std::vector<PyPiece>& pieces, nb::handle cuts) {
        require_given(pieces);
        std::vector<int64_t> rows = read_int64(cuts);
        require_batches(pieces, rows);
        return without_gil([&] {
          auto decoded = decode_pieces(pieces, [](size_t, DecodedRows rows) { return rows; });
          auto result = std::make_unique<PyArrowRows>();
          ArrowColumns columns;
          std::vector<uint64_t> bits(rows.size());
          for (size_t i = 0; i < pieces.size(); ++i) {
            if (decoded[i]) {
              with_pages(std::get<0>(pieces[i]), [&](const auto& page) {
                decoded[i]->add_bits(page.value_bits(), page.list_bits(), rows, bits);
              });
            }
            result->is_there.push_back(decoded[i] && add_column(columns, std::move(*decoded[i]), pieces[i]));
          }
          for (size_t i = 1; i < rows.size(); ++i) {
            if (rows[i] - rows[i - 1] > 1) {
              result->largest_bits = std::max(result->largest_bits, bits[i] - bits[i - 1]);
            }
          }
          result->num_bytes = (bits.back() - bits.front()) / 8;
          result->rows = columns.take_rows(static_cast<size_t>(rows.back()));
          return result.release();
        });
      },
      nb::arg("pieces"), nb::arg("cuts"));
  nb::class_<PyColumnPages>(m, "ColumnPages")
      .def("__init__", &make_column, nb::arg("pages"), nb::arg("starts"), nb::arg("file"))
      .def_prop_ro("pages", [](const PyColumnPages& self) { return self.pages; })
      .def(
          "unknown",
          [](const PyColumnPages& self, nb::handle rows) {
            Source source(rows);
            return self.column.unknown(source.bytes());
          },
          nb::arg("rows"));
  nb::class_<PyArrowRows>(m, "ArrowRows")
      .def_prop_ro("is_there", [](const PyArrowRows& self) { return self.is_there; })
      .def_prop_ro("num_bytes", [](const PyArrowRows& self) { return self.num_bytes; })
      .def_prop_ro("largest_bits", [](const PyArrowRows& self) { return self.largest_bits; })
      .def_prop_ro("address", [](const PyArrowRows& self) { return reinterpret_cast<uintptr_t>(&self.rows); });
  m.def(
      "take_rows",
      [](const std::vector<PyRowsToTake>& parts, size_t num_columns, size_t num_rows) {
        std::vector<std::unique_ptr<Source>> sources;
        std::vector<RowsToTake> wanted;
        for (const auto& [columns, rows, places] : parts) {
          RowsToTake part;
          for (const PyColumnPages* column : columns) {
            part.columns.push_back(&given(column).column);
          }
          sources.push_back(std::make_unique<Source>(rows));
          part.rows = sources.back()->bytes();
          if (!places.is_none()) {
            sources.push_back(std::make_unique<Source>(places));
            part.places = sources.back()->bytes();
          }
          wanted.push_back(std::move(part));
        }
        return without_gil([&] {
          auto result = std::make_unique<PyArrowRows>();
          ArrowColumns columns;
          for (std::optional<DecodedRows>& column : take_rows(wanted, num_columns, num_rows)) {
            result->is_there.push_back(column.has_value());
            if (column) {
              columns.add(std::move(*column), 0, num_rows);
            }
          }
          result->rows = columns.take_rows(num_rows);
          return result.release();
        });
      },
      nb::arg("parts"), nb::arg("num_columns"), nb::arg("num_rows"));
}

}  // namespace lance
