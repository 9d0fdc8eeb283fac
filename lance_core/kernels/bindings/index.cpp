// Python bindings of the kernels that build indices.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings/bindings.hpp"
#include "compression/xxhash.hpp"
#include "index/bloom.hpp"
#include "index/roaring.hpp"
#include "index/set_collector.hpp"
#include "index/sort.hpp"
#include "index/trigrams.hpp"

namespace lance {
namespace {

SetContainer form_of(bool is_tree_map) { return is_tree_map ? SetContainer::tree_map : SetContainer::map64; }

// Holds the buffers of several Python objects.
class Parts {
 public:
  explicit Parts(nb::sequence objects) {
    for (nb::handle object : objects) sources_.push_back(std::make_unique<Source>(object));
  }
  std::vector<Bytes> bytes() const {
    std::vector<Bytes> all;
    for (const auto& source : sources_) all.push_back(source->bytes());
    return all;
  }

 private:
  std::vector<std::unique_ptr<Source>> sources_;
};

}  // namespace

void bind_index(nb::module_& m) {
  m.def(
      "sort_rows",
      [](nb::sequence values, nb::sequence rows) {
        Parts value_parts(values), row_parts(rows);
        return without_gil([&] { return sort_rows(value_parts.bytes(), row_parts.bytes()); });
      },
      nb::arg("values"), nb::arg("rows"));
  m.def(
      "sort_variable",
      [](nb::handle offsets, nb::handle data, nb::handle rows, size_t n, unsigned offset_bits) {
        Source offset_source(offsets), data_source(data), row_source(rows);
        SortedStrings sorted = without_gil([&] {
          return sort_variable(offset_source.bytes(), data_source.bytes(), row_source.bytes(), n, offset_bits);
        });
        return std::make_tuple(std::move(sorted.strings.offsets), std::move(sorted.strings.data),
                               std::move(sorted.rows));
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("rows"), nb::arg("num_values"), nb::arg("offset_bits"));
  m.def(
      "unite_row_sets",
      [](nb::handle ends, nb::handle offsets, nb::handle data, bool is_tree_map) {
        Source end_source(ends), offset_source(offsets), data_source(data);
        RowSets sets = without_gil([&] {
          return unite_sets(end_source.bytes(), offset_source.bytes(), data_source.bytes(), form_of(is_tree_map));
        });
        return std::make_pair(std::move(sets.offsets), std::move(sets.data));
      },
      nb::arg("ends"), nb::arg("offsets"), nb::arg("data"), nb::arg("is_tree_map"));
  nb::class_<SetCollector>(m, "SetCollector")
      .def(nb::init<unsigned>(), nb::arg("offset_bits"))
      .def(
          "add",
          [](SetCollector& self, nb::handle offsets, nb::handle values, nb::handle rows) {
            OptionalSource offset_source(offsets);
            Source value_source(values), row_source(rows);
            without_gil([&] { self.add(offset_source.bytes(), value_source.bytes(), row_source.bytes()); });
          },
          nb::arg("offsets").none(), nb::arg("values"), nb::arg("rows"))
      .def_prop_ro("num_bytes", &SetCollector::num_bytes)
      .def_prop_ro("num_values", &SetCollector::num_values)
      .def("finish", [](SetCollector& self) { without_gil([&] { self.finish(); }); })
      .def(
          "sets",
          [](const SetCollector& self, size_t first, size_t most_bytes, bool is_tree_map) {
            CollectedSets found = without_gil([&] { return self.sets(first, most_bytes, form_of(is_tree_map)); });
            return std::make_tuple(found.num_values, std::move(found.offsets), std::move(found.values),
                                   std::move(found.sets.offsets), std::move(found.sets.data));
          },
          nb::arg("first"), nb::arg("most_bytes"), nb::arg("is_tree_map"));
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
