// Python bindings of the kernels of index searches.
#include "bindings/bindings.hpp"
#include "index/strings.hpp"

namespace lance {

void bind_scalar_index(nb::module_& m) {
  m.def(
      "hash_strings",
      [](nb::handle offsets, nb::handle data, unsigned offset_bits) {
        Source offset_source(offsets);
        OptionalSource data_source(data);
        return without_gil([&] { return hash_strings({data_source.bytes(), offset_source.bytes(), offset_bits}); });
      },
      nb::arg("offsets"), nb::arg("data").none(), nb::arg("offset_bits"));
  m.def(
      "search_strings",
      [](nb::handle offsets, nb::handle data, unsigned offset_bits, nb::handle needle_offsets, nb::handle needle_data,
         unsigned needle_bits, bool after) {
        Source offset_source(offsets), needle_offset_source(needle_offsets);
        OptionalSource data_source(data), needle_source(needle_data);
        return without_gil([&] {
          return search_strings({data_source.bytes(), offset_source.bytes(), offset_bits},
                                {needle_source.bytes(), needle_offset_source.bytes(), needle_bits}, after);
        });
      },
      nb::arg("offsets"), nb::arg("data").none(), nb::arg("offset_bits"), nb::arg("needle_offsets"),
      nb::arg("needle_data").none(), nb::arg("needle_bits"), nb::arg("after"));
}

}  // namespace lance
