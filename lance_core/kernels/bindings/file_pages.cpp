// Python bindings of the kernels for the pages of many small files.
#include "metadata/file_pages.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include "bindings/bindings.hpp"

namespace lance {
namespace {

template <class T>
Block block_of(const std::vector<T>& values) {
  Block block(values.size() * sizeof(T));
  copy_bytes(block.data(), values.data(), block.size());
  return block;
}

nb::tuple parsed(FilePages (*parse)(Bytes, const FilePlaces&), nb::handle data, FilePlaces places) {
  Source source(data);
  FilePages found = without_gil([&] { return parse(source.bytes(), places); });
  nb::list layouts;
  for (const SharedLayout& layout : found.layouts) {
    layouts.append(nb::make_tuple(layout.kind, nb::bytes(layout.message.data(), layout.message.size())));
  }
  return nb::make_tuple(layouts, block_of(found.pages));
}

}  // namespace

void bind_file_pages(nb::module_& m) {
  m.def(
      "parse_file_pages",
      [](nb::handle data, nb::handle starts, nb::handle sizes, nb::handle metadata, nb::handle metadata_sizes) {
        return parsed(parse_file_pages, data,
                      {read_int64(starts), read_int64(sizes), read_int64(metadata), read_int64(metadata_sizes)});
      },
      nb::arg("data"), nb::arg("starts"), nb::arg("sizes"), nb::arg("metadata"), nb::arg("metadata_sizes"));
  m.def(
      "parse_file_arrays",
      [](nb::handle data, nb::handle starts, nb::handle sizes, nb::handle metadata, nb::handle metadata_sizes) {
        return parsed(parse_file_arrays, data,
                      {read_int64(starts), read_int64(sizes), read_int64(metadata), read_int64(metadata_sizes)});
      },
      nb::arg("data"), nb::arg("starts"), nb::arg("sizes"), nb::arg("metadata"), nb::arg("metadata_sizes"));
  m.def(
      "join_ranges",
      [](nb::handle data, nb::handle offsets, nb::handle sizes) {
        Source source(data);
        std::vector<int64_t> from = read_int64(offsets), lengths = read_int64(sizes);
        return without_gil([&] { return join_ranges(source.bytes(), from, lengths); });
      },
      nb::arg("data"), nb::arg("offsets"), nb::arg("sizes"));
  m.def(
      "join_chunks",
      [](nb::handle data, nb::handle words, nb::handle chunks, nb::handle num_values, bool large) {
        Source source(data);
        std::vector<int64_t> word_places = read_int64(words), chunk_places = read_int64(chunks);
        std::vector<int64_t> values = read_int64(num_values);
        JoinedChunks joined =
            without_gil([&] { return join_chunks(source.bytes(), word_places, chunk_places, values, large); });
        return std::make_tuple(std::move(joined.data), block_of(joined.position), block_of(joined.first_value),
                               block_of(joined.num_chunks));
      },
      nb::arg("data"), nb::arg("words"), nb::arg("chunks"), nb::arg("num_values"), nb::arg("large"));
}

}  // namespace lance
