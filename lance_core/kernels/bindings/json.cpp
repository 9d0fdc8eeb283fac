// Python bindings of the kernels of JSON columns.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "bindings/bindings.hpp"
#include "json/columns.hpp"
#include "json/from_text.hpp"
#include "json/path.hpp"
#include "json/to_text.hpp"

namespace lance {
namespace {

// The buffers of a large-binary array, held as long as a kernel uses them.
class ColumnSource {
 public:
  ColumnSource(nb::handle offsets, nb::handle data, nb::handle validity, size_t first_bit, size_t num_values)
      : offsets_(offsets), data_(data), validity_(validity), first_bit_(first_bit), num_values_(num_values) {}

  JsonColumn column() const { return {offsets_.bytes(), data_.bytes(), validity_.bytes(), first_bit_, num_values_}; }

 private:
  Source offsets_;
  Source data_;
  OptionalSource validity_;
  size_t first_bit_;
  size_t num_values_;
};

auto as_tuple(NullableValues result) { return std::make_tuple(std::move(result.validity), std::move(result.values)); }

auto as_tuple(NullableVariable result) {
  return std::make_tuple(std::move(result.validity), std::move(result.values.offsets), std::move(result.values.data));
}

auto as_tuple(JsonLeaves result) {
  return std::make_tuple(std::move(result.ends), std::move(result.labels), std::move(result.names.offsets),
                         std::move(result.names.data), std::move(result.values.offsets), std::move(result.values.data));
}

template <class Text>
nb::arg text_argument() {
  return nb::arg();
}

// Binds `kernel(column, texts...)`, which is given the buffers of the column and texts.
template <class... Texts, class Kernel>
void bind_kernel(nb::module_& m, const char* name, Kernel kernel) {
  m.def(
      name,
      [kernel](nb::handle offsets, nb::handle data, nb::handle validity, size_t first_bit, size_t num_values,
               const Texts&... texts) {
        ColumnSource source(offsets, data, validity, first_bit, num_values);
        return without_gil([&] { return as_tuple(kernel(source.column(), texts...)); });
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("validity").none(), nb::arg("first_bit"), nb::arg("num_values"),
      text_argument<Texts>()...);
}

}  // namespace

void bind_json(nb::module_& m) {
  nb::exception<json::InvalidPath>(m, "InvalidPath", PyExc_ValueError);

  bind_kernel(m, "json_text", [](const JsonColumn& column) {
    return json_text(column.offsets, column.data, column.validity, column.first_bit, column.num_values);
  });
  bind_kernel(m, "json_binary", [](const JsonColumn& column) {
    return json_binary(column.offsets, column.data, column.validity, column.first_bit, column.num_values);
  });

  m.def("check_json_path", [](const std::string& path) { json::parse_path(path); });
  bind_kernel<std::string>(m, "json_values_at", json_values_at);
  bind_kernel<std::string>(m, "json_exists", json_exists);
  bind_kernel<std::string>(m, "json_array_length", json_array_length);
  bind_kernel<std::string, std::string>(m, "json_array_contains", json_array_contains);
  bind_kernel<std::string>(m, "json_member", json_member);
  bind_kernel(m, "json_strings", json_strings);
  bind_kernel(m, "json_integers", json_integers);
  bind_kernel(m, "json_floats", json_floats);
  bind_kernel(m, "json_booleans", json_booleans);
  bind_kernel(m, "json_leaves", json_leaves);
}

}  // namespace lance
