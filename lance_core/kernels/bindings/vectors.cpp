// Python bindings of the kernels that compare vectors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>

#include "bindings/bindings.hpp"
#include "files/file_map.hpp"
#include "files/pieces.hpp"
#include "vectors/nearest.hpp"

namespace lance {
namespace {

Element element_of(const std::string& name) {
  if (name == "float16") return Element::float16;
  if (name == "bfloat16") return Element::bfloat16;
  if (name == "float32") return Element::float32;
  if (name == "float64") return Element::float64;
  if (name == "uint8") return Element::uint8;
  if (name == "int8") return Element::int8;
  if (name == "uint16") return Element::uint16;
  throw nb::value_error("unknown type of elements");
}

Metric metric_of(const std::string& name) {
  if (name == "l2") return Metric::l2;
  if (name == "cosine") return Metric::cosine;
  if (name == "dot") return Metric::dot;
  if (name == "hamming") return Metric::hamming;
  if (name == "product") return Metric::product;
  throw nb::value_error("unknown metric");
}

using PyFound = std::tuple<Block, Block, std::vector<int64_t>>;

PyFound as_result(Found found) { return {std::move(found.rows), std::move(found.distances), std::move(found.counts)}; }

// Rows of `bytes`, whose vectors follow one another.
VectorRows rows_of(const Comparison& comparison, Bytes bytes, Bytes validity, size_t first_bit) {
  size_t num_vectors = bytes.size / comparison.vector_bytes();
  if (bytes.size % comparison.vector_bytes() != 0) {
    corrupt("%zu bytes are no vectors of %zu bytes", bytes.size, comparison.vector_bytes());
  }
  VectorRows rows{bytes.data, comparison.vector_bytes(), num_vectors};
  if (validity.data != nullptr) {
    if (first_bit > validity.size * 8 || num_vectors > validity.size * 8 - first_bit) {
      corrupt("%zu bytes of validity for %zu vectors from bit %zu on", validity.size, num_vectors, first_bit);
    }
    rows.validity = validity.data;
    rows.first_bit = first_bit;
  }
  return rows;
}

// Rows that are compared, and their keys. Keeps the buffers as long as it lives.
class Chosen {
 public:
  Chosen(nb::handle rows, nb::handle keys) : has_rows_(!rows.is_none()), keys_(keys) {
    if (has_rows_) {
      rows_ = read_int64(rows);
    }
  }

  // Checks them, and sets them.
  void set(VectorRows& vectors) const {
    if (has_rows_) {
      for (int64_t row : rows_) {
        if (row < 0 || static_cast<size_t>(row) >= vectors.num_vectors) {
          corrupt("row %lld of %zu vectors", static_cast<long long>(row), vectors.num_vectors);
        }
      }
      vectors.chosen = rows_.data();
      vectors.num_chosen = rows_.size();
      if (rows_.empty()) {
        vectors.num_vectors = 0;
        vectors.chosen = nullptr;
      }
    }
    Bytes keys = keys_.bytes();
    if (keys.data != nullptr) {
      if (keys.size / 8 < vectors.num_vectors || reinterpret_cast<uintptr_t>(keys.data) % alignof(uint64_t) != 0) {
        corrupt("%zu bytes of keys for %zu vectors", keys.size, vectors.num_vectors);
      }
      vectors.keys = reinterpret_cast<const uint64_t*>(keys.data);
    }
  }

 private:
  bool has_rows_;
  std::vector<int64_t> rows_;
  OptionalSource keys_;
};

size_t most_rows(const VectorRows& vectors) {
  return vectors.chosen != nullptr ? vectors.num_chosen : vectors.num_vectors;
}

struct Search {
  Nearest* nearest;
  const VectorRows* vectors;
};

// Returns nothing if the vectors could not be compared in the map of the file.
std::optional<Found> find_in_file(const Comparison& comparison, PieceReader& reader, size_t offset, VectorRows vectors,
                                  size_t k, std::optional<float> lower, std::optional<float> upper) {
  size_t bytes = comparison.vector_bytes();
  if (vectors.stride < bytes || vectors.stride > reader.file_bytes() || offset > reader.file_bytes()) {
    corrupt("vectors of %zu bytes every %zu bytes at %zu", bytes, vectors.stride, offset);
  }
  if (vectors.num_vectors > (reader.file_bytes() - offset) / vectors.stride) {
    corrupt("%zu vectors every %zu bytes at %zu in a file of %zu", vectors.num_vectors, vectors.stride, offset,
            reader.file_bytes());
  }
  const FileMap* map = reader.map_for_run(offset, vectors.num_vectors * vectors.stride);
  if (map == nullptr) {
    return std::nullopt;
  }
  vectors.first = map->data() + offset;
  Nearest nearest(comparison, k, lower, upper, most_rows(vectors));
  Search search{&nearest, &vectors};
  auto add = [](void* given) {
    auto* search = static_cast<Search*>(given);
    search->nearest->add(*search->vectors);
  };
  if (!GuardedCopies({map->range()}).run(add, &search) || !reader.is_whole()) {
    return std::nullopt;
  }
  return nearest.found();
}

// Plain pages, and the owner of their file.
struct PyPlainPages {
  PlainPages pages;
  nb::object file;
};

void make_pages(PyPlainPages* self, nb::handle starts, nb::handle offsets, size_t stride, nb::object file) {
  PlainPages pages{&nb::cast<PieceReader&>(file), stride, read_int64(starts), read_int64(offsets)};
  if (stride == 0 || pages.starts.size() != pages.offsets.size() + 1 || pages.starts[0] != 0 ||
      !std::is_sorted(pages.starts.begin(), pages.starts.end())) {
    corrupt("%zu pages of vectors of %zu bytes that begin at %zu rows", pages.offsets.size(), stride,
            pages.starts.size());
  }
  new (self) PyPlainPages{std::move(pages), std::move(file)};
}

using PyRowsToCompare = std::tuple<const PyPlainPages*, nb::object, nb::object>;

std::optional<Block> compare_in_files(const Comparison& comparison, const std::vector<PyRowsToCompare>& given,
                                      size_t num_rows) {
  std::deque<Source> sources;  // they cannot move
  std::vector<RowsToCompare> parts;
  for (const auto& [pages, rows, places] : given) {
    Bytes row_bytes = sources.emplace_back(rows).bytes();
    parts.push_back({&pages->pages, row_bytes, sources.emplace_back(places).bytes()});
  }
  return without_gil([&] { return distances_in_files(comparison, parts, num_rows); });
}

}  // namespace

void bind_vectors(nb::module_& m) {
  nb::class_<PyPlainPages>(m, "PlainPages")
      .def("__init__", &make_pages, nb::arg("starts"), nb::arg("offsets"), nb::arg("stride"), nb::arg("file"))
      .def_prop_ro("stride", [](const PyPlainPages& self) { return self.pages.stride; });
  nb::class_<Comparison>(m, "Comparison")
      .def(
          "__init__",
          [](Comparison* self, nb::handle queries, size_t dimension, const std::string& element,
             const std::string& metric, bool one_by_one) {
            Source source(queries);
            new (self) Comparison(source.bytes(), dimension, element_of(element), metric_of(metric), one_by_one);
          },
          nb::arg("queries"), nb::arg("dimension"), nb::arg("element"), nb::arg("metric"),
          nb::arg("one_by_one") = false)
      .def_prop_ro("num_queries", &Comparison::num_queries)
      .def_prop_ro("vector_bytes", &Comparison::vector_bytes);
  m.def(
      "nearest_vectors",
      [](const Comparison& comparison, nb::handle vectors, size_t k, nb::handle validity, size_t first_bit,
         nb::handle rows, nb::handle keys, std::optional<float> lower, std::optional<float> upper) {
        Source source(vectors);
        OptionalSource bits(validity);
        Chosen chosen(rows, keys);
        return as_result(without_gil([&] {
          VectorRows found = rows_of(comparison, source.bytes(), bits.bytes(), first_bit);
          chosen.set(found);
          Nearest nearest(comparison, k, lower, upper, most_rows(found));
          nearest.add(found);
          return nearest.found();
        }));
      },
      nb::arg("comparison"), nb::arg("vectors"), nb::arg("k"), nb::arg("validity").none() = nb::none(),
      nb::arg("first_bit") = 0, nb::arg("rows").none() = nb::none(), nb::arg("keys").none() = nb::none(),
      nb::arg("lower").none() = nb::none(), nb::arg("upper").none() = nb::none());
  m.def(
      "nearest_in_file",
      [](const Comparison& comparison, PieceReader& reader, size_t offset, size_t stride, size_t num_vectors, size_t k,
         nb::handle rows, nb::handle keys, std::optional<float> lower,
         std::optional<float> upper) -> std::optional<PyFound> {
        Chosen chosen(rows, keys);
        std::optional<Found> found = without_gil([&] {
          VectorRows vectors{nullptr, stride, num_vectors};
          chosen.set(vectors);
          return find_in_file(comparison, reader, offset, vectors, k, lower, upper);
        });
        return found ? std::optional<PyFound>(as_result(std::move(*found))) : std::nullopt;
      },
      nb::arg("comparison"), nb::arg("reader"), nb::arg("offset"), nb::arg("stride"), nb::arg("num_vectors"),
      nb::arg("k"), nb::arg("rows").none() = nb::none(), nb::arg("keys").none() = nb::none(),
      nb::arg("lower").none() = nb::none(), nb::arg("upper").none() = nb::none());
  m.def(
      "vector_distances",
      [](const Comparison& comparison, nb::handle vectors, nb::handle validity, size_t first_bit) {
        Source source(vectors);
        OptionalSource bits(validity);
        return without_gil(
            [&] { return all_distances(comparison, rows_of(comparison, source.bytes(), bits.bytes(), first_bit)); });
      },
      nb::arg("comparison"), nb::arg("vectors"), nb::arg("validity").none() = nb::none(), nb::arg("first_bit") = 0);
  m.def("distances_in_files", &compare_in_files, nb::arg("comparison"), nb::arg("parts"), nb::arg("num_rows"));
}

}  // namespace lance
