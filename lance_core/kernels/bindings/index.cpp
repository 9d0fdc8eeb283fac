// Python bindings of the kernels that build indices.
#include <nanobind/stl/pair.h>

#include "bindings/bindings.hpp"
#include "codecs/xxhash.hpp"
#include "index/bloom.hpp"
#include "index/row_sets.hpp"
#include "index/sort.hpp"
#include "index/trigrams.hpp"

namespace lance {

void bind_index(nb::module_& m) {
  m.def(
      "sort_rows",
      [](nb::handle values, nb::handle rows) {
        Source value_source(values), row_source(rows);
        SortedRows sorted = without_gil([&] { return sort_rows(value_source.bytes(), row_source.bytes()); });
        return std::make_pair(std::move(sorted.values), std::move(sorted.rows));
      },
      nb::arg("values"), nb::arg("rows"));
  m.def(
      "sort_variable",
      [](nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits) {
        Source offset_source(offsets), data_source(data);
        return without_gil([&] { return sort_variable(offset_source.bytes(), data_source.bytes(), n, offset_bits); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "write_row_sets",
      [](nb::handle ends, nb::handle keys, bool is_tree_map) {
        Source end_source(ends), key_source(keys);
        SetContainer container = is_tree_map ? SetContainer::tree_map : SetContainer::map64;
        RowSets sets = without_gil([&] { return write_row_sets(end_source.bytes(), key_source.bytes(), container); });
        return std::make_pair(std::move(sets.offsets), std::move(sets.data));
      },
      nb::arg("ends"), nb::arg("keys"), nb::arg("is_tree_map"));
  m.def(
      "bloom_filter",
      [](nb::handle offsets, nb::handle data, unsigned offset_bits, size_t width, nb::handle validity, size_t first_bit,
         size_t start, size_t num_values, size_t num_blocks) {
        OptionalSource offset_source(offsets), validity_source(validity);
        Source data_source(data);
        return without_gil([&] {
          return bloom_filter({offset_source.bytes(),
                               data_source.bytes(),
                               offset_bits,
                               width,
                               {validity_source.bytes(), first_bit},
                               start,
                               num_values},
                              num_blocks);
        });
      },
      nb::arg("offsets").none(), nb::arg("data"), nb::arg("offset_bits"), nb::arg("width"), nb::arg("validity").none(),
      nb::arg("first_bit"), nb::arg("start"), nb::arg("num_values"), nb::arg("num_blocks"));
  m.def(
      "find_trigrams",
      [](nb::handle offsets, nb::handle data, size_t n, unsigned offset_bits) {
        Source offset_source(offsets), data_source(data);
        Trigrams found =
            without_gil([&] { return find_trigrams(offset_source.bytes(), data_source.bytes(), n, offset_bits); });
        return std::make_pair(std::move(found.tokens), std::move(found.rows));
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "xxhash64",
      [](nb::handle data) {
        Source source(data);
        return xxhash64(source.bytes());
      },
      nb::arg("data"));
}

}  // namespace lance
