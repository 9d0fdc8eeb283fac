// Python bindings of the kernels of vector indices.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "base/pool.hpp"
#include "bindings/bindings.hpp"
#include "index/key_set.hpp"
#include "vector_codes/rotated_codes.hpp"
#include "vector_codes/scans.hpp"
#include "vectors/best_rows.hpp"
#include "vectors/clusters.hpp"
#include "vectors/graph.hpp"

namespace lance {

namespace {

// The elements of a buffer that must have `count` of them.
template <class T>
const T* elements(Bytes bytes, size_t count, const char* what) {
  if (count > bytes.size / sizeof(T) || bytes.size != count * sizeof(T)) {
    corrupt("%zu bytes are not %zu %s", bytes.size, count, what);
  }
  if (reinterpret_cast<uintptr_t>(bytes.data) % alignof(T) != 0) {
    corrupt("%s in unaligned memory", what);
  }
  return reinterpret_cast<const T*>(bytes.data);
}

size_t times(size_t a, size_t b) {
  size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) corrupt("%zu times %zu elements", a, b);
  return product;
}

template <class T>
Block copied(const std::vector<T>& values) {
  Block block(values.size() * sizeof(T));
  copy_bytes(block.data(), values.data(), block.size());
  return block;
}

std::vector<uint32_t> read_numbers(nb::handle object) {
  Source source(object);
  Bytes bytes = source.bytes();
  std::vector<uint32_t> values(bytes.size / sizeof(uint32_t));
  elements<uint32_t>(bytes, values.size(), "numbers of nodes");
  copy_bytes(values.data(), bytes.data, bytes.size);
  return values;
}

// The keys of a partition, and which of its rows are allowed.
class PyRows {
 public:
  PyRows(nb::handle keys, nb::handle allowed) : keys_(keys), allowed_(allowed) {
    rows_.size = keys_.bytes().size / sizeof(uint64_t);
    rows_.keys = elements<uint64_t>(keys_.bytes(), rows_.size, "row keys");
    if (!allowed.is_none()) {
      rows_.allowed = elements<uint8_t>(allowed_.bytes(), rows_.size, "flags of rows");
    }
  }
  const CodedRows& operator*() const { return rows_; }
  size_t size() const { return rows_.size; }

 private:
  Source keys_;
  OptionalSource allowed_;
  CodedRows rows_;
};

// Rows of a partition, the queries that search them, and the buffers of both.
class PyQueriedRows {
 public:
  PyQueriedRows(nb::handle keys, nb::handle codes, nb::handle queries, nb::handle allowed, size_t partition,
                nb::handle row_scales, nb::handle row_offsets, nb::handle shifts, nb::handle offsets, nb::handle shares)
      : keys_(keys, allowed),
        codes_(codes),
        queries_(queries),
        row_scales_(row_scales),
        row_offsets_(row_offsets),
        shifts_(shifts),
        offsets_(offsets),
        shares_(shares) {
    rows_.rows = *keys_;
    rows_.codes = codes_.bytes();
    rows_.partition = partition;
    rows_.num_queries = queries_.bytes().size / sizeof(uint32_t);
    rows_.queries = elements<uint32_t>(queries_.bytes(), rows_.num_queries, "numbers of queries");
    if (!row_scales.is_none()) {
      rows_.row_scales = elements<float>(row_scales_.bytes(), rows_.rows.size, "scales of rows");
      rows_.row_offsets = elements<float>(row_offsets_.bytes(), rows_.rows.size, "offsets of rows");
    }
    rows_.shifts = one_per_query(shifts, shifts_, "shifts of queries");
    rows_.offsets = one_per_query(offsets, offsets_, "offsets of queries");
    rows_.shares = one_per_query(shares, shares_, "shares of queries");
  }

  // Returns the rows if they have `bytes_per_row` bytes of codes each, and no more queries than these.
  const QueriedRows* checked(size_t bytes_per_row, size_t num_queries) const {
    elements<uint8_t>(rows_.codes, times(rows_.rows.size, bytes_per_row), "codes");
    if (rows_.num_queries > num_queries) corrupt("%zu numbers of %zu queries", rows_.num_queries, num_queries);
    for (size_t i = 0; i < rows_.num_queries; ++i) {
      if (rows_.queries[i] >= num_queries) corrupt("query %u of %zu", rows_.queries[i], num_queries);
    }
    return &rows_;
  }

 private:
  const float* one_per_query(nb::handle object, const OptionalSource& source, const char* what) const {
    return object.is_none() ? nullptr : elements<float>(source.bytes(), rows_.num_queries, what);
  }

  PyRows keys_;
  Source codes_, queries_;
  OptionalSource row_scales_, row_offsets_, shifts_, offsets_, shares_;
  QueriedRows rows_;
};

using PyAllQueriedRows = std::vector<const PyQueriedRows*>;

// Returns all rows; see `PyQueriedRows::checked`. There must be best rows of each query.
AllQueriedRows checked(const PyAllQueriedRows& given, const BestOfQueries& best, size_t bytes_per_row,
                       size_t num_queries) {
  AllQueriedRows all;
  for (const PyQueriedRows* rows : given) {
    if (rows == nullptr) corrupt("no rows");
    all.push_back(rows->checked(bytes_per_row, std::min(num_queries, best.size())));
  }
  if (std::find(best.begin(), best.end(), nullptr) != best.end()) corrupt("no best rows of a query");
  return all;
}

void require_bits(unsigned bits, size_t num_sub_vectors) {
  if ((bits != 4 && bits != 8) || num_sub_vectors == 0 || (bits == 4 && num_sub_vectors % 2 != 0)) {
    corrupt("%zu sub-vectors with codes of %u bits", num_sub_vectors, bits);
  }
}

// Stored vectors and the buffers that they are in.
struct PyVectors {
  std::vector<std::unique_ptr<Source>> sources;
  std::unique_ptr<StoredVectors> vectors;
  size_t num_rows = 0;

  Bytes keep(nb::handle object) {
    sources.push_back(std::make_unique<Source>(object));
    return sources.back()->bytes();
  }
  // The bytes of rows of `width` bytes each.
  Bytes keep_rows(nb::handle object, size_t width) {
    Bytes bytes = keep(object);
    if (width == 0 || bytes.size % width != 0) corrupt("%zu bytes are no vectors of %zu bytes", bytes.size, width);
    num_rows = bytes.size / width;
    return bytes;
  }
};

Nearness nearness_of(const std::string& name) {
  if (name == "l2") return Nearness::squared_distance;
  if (name == "dot") return Nearness::product;
  throw nb::value_error("unknown metric of clusters");
}

}  // namespace

void bind_vector_index(nb::module_& m) {
  nb::class_<PyVectors>(m, "StoredVectors")
      .def("__len__", [](const PyVectors& self) { return self.num_rows; })
      .def_static(
          "plain",
          [](const std::string& metric, nb::handle vectors, nb::handle query) {
            auto result = std::make_unique<PyVectors>();
            Bytes wanted = result->keep(query);
            Bytes bytes = result->keep_rows(vectors, wanted.size);
            if (metric == "hamming") {
              result->vectors = std::make_unique<BitVectors>(bytes.data, wanted.size, wanted.data);
            } else {
              size_t dimension = wanted.size / sizeof(float);
              result->vectors = std::make_unique<PlainVectors>(
                  nearness_of(metric) == Nearness::product,
                  elements<float>(bytes, times(dimension, result->num_rows), "elements of vectors"), dimension,
                  elements<float>(wanted, dimension, "elements of a query"));
            }
            return result;
          },
          nb::arg("metric"), nb::arg("vectors"), nb::arg("query"))
      .def_static(
          "scalar_codes",
          [](nb::handle codes, nb::handle query, float scale) {
            auto result = std::make_unique<PyVectors>();
            Bytes wanted = result->keep(query);
            Bytes bytes = result->keep_rows(codes, wanted.size);
            result->vectors = std::make_unique<ScalarCodes>(bytes.data, wanted.size, wanted.data, scale);
            return result;
          },
          nb::arg("codes"), nb::arg("query"), nb::arg("scale"))
      .def_static(
          "scalar_products",
          [](nb::handle codes, nb::handle query, float scale, float offset) {
            auto result = std::make_unique<PyVectors>();
            Bytes wanted = result->keep(query);
            size_t dimension = wanted.size / sizeof(float);
            Bytes bytes = result->keep_rows(codes, dimension);
            result->vectors = std::make_unique<ScalarProducts>(
                bytes.data, dimension, elements<float>(wanted, dimension, "elements of a query"), scale, offset);
            return result;
          },
          nb::arg("codes"), nb::arg("query"), nb::arg("scale"), nb::arg("offset"))
      .def_static(
          "product_codes",
          [](nb::handle codes, nb::handle table, size_t num_sub_vectors, unsigned bits, float scale, float offset) {
            require_bits(bits, num_sub_vectors);
            auto result = std::make_unique<PyVectors>();
            size_t width = bits == 8 ? num_sub_vectors : num_sub_vectors / 2;
            const float* entries =
                elements<float>(result->keep(table), times(num_sub_vectors, size_t{1} << bits), "table entries");
            Bytes bytes = result->keep_rows(codes, width);
            result->vectors = std::make_unique<ProductCodes>(bytes.data, width, bits, entries, scale, offset);
            return result;
          },
          nb::arg("codes"), nb::arg("table"), nb::arg("num_sub_vectors"), nb::arg("bits"), nb::arg("scale"),
          nb::arg("offset"));

  nb::class_<Graph>(m, "Graph")
      .def(
          "__init__",
          [](Graph* self, size_t num_nodes, uint32_t entry,
             const std::vector<std::tuple<nb::object, nb::object, nb::object>>& levels) {
            std::vector<GraphLevel> read;
            for (const auto& [nodes, starts, neighbors] : levels) {
              read.push_back({read_numbers(nodes), read_numbers(starts), read_numbers(neighbors)});
            }
            new (self) Graph(num_nodes, entry, std::move(read));
          },
          nb::arg("num_nodes"), nb::arg("entry"), nb::arg("levels"))
      .def_static(
          "build",
          [](PyVectors& vectors, size_t max_neighbors, size_t beam_width, size_t max_levels) {
            auto* comparable = dynamic_cast<ComparableVectors*>(vectors.vectors.get());
            if (comparable == nullptr) throw nb::value_error("vectors that cannot be compared with each other");
            return without_gil(
                [&] { return build_graph(*comparable, vectors.num_rows, {max_neighbors, beam_width, max_levels}); });
          },
          nb::arg("vectors"), nb::arg("max_neighbors"), nb::arg("beam_width"), nb::arg("max_levels"))
      .def_prop_ro("entry", &Graph::entry)
      .def_prop_ro("num_bytes", &Graph::num_bytes)
      .def("levels", [](const Graph& self) {
        std::vector<std::tuple<Block, Block, Block>> levels;
        for (const GraphLevel& level : self.levels()) {
          levels.emplace_back(copied(level.nodes), copied(level.starts), copied(level.neighbors));
        }
        return levels;
      });

  nb::class_<KeySet>(m, "KeySet")
      .def(
          "__init__",
          [](KeySet* self, nb::handle keys) {
            Source source(keys);
            size_t count = source.bytes().size / sizeof(uint64_t);
            const uint64_t* values = elements<uint64_t>(source.bytes(), count, "row keys");
            new (self) KeySet(without_gil([&] { return KeySet(values, count); }));
          },
          nb::arg("keys"))
      .def(
          "flags",
          [](const KeySet& self, nb::handle keys) {
            PyRows rows(keys, nb::none());
            Block flags(rows.size());
            without_gil([&] { self.flags((*rows).keys, rows.size(), flags.data()); });
            return flags;
          },
          nb::arg("keys"));

  nb::class_<BestRows>(m, "BestRows")
      .def(
          "__init__",
          [](BestRows* self, size_t count, std::optional<float> lower, std::optional<float> upper) {
            constexpr float infinity = std::numeric_limits<float>::infinity();
            new (self) BestRows(count, lower.value_or(-infinity), upper.value_or(infinity), upper.has_value());
          },
          nb::arg("count"), nb::arg("lower").none() = nb::none(), nb::arg("upper").none() = nb::none())
      .def("__len__", &BestRows::size)
      .def(
          "scan_plain",
          [](BestRows& self, nb::handle keys, nb::handle allowed, const PyVectors& vectors) {
            PyRows rows(keys, allowed);
            if (vectors.num_rows != rows.size()) corrupt("%zu vectors of %zu rows", vectors.num_rows, rows.size());
            without_gil([&] {
              for (size_t row = 0; row < rows.size(); ++row) {
                if ((*rows).allowed != nullptr && (*rows).allowed[row] == 0) continue;
                self.offer(vectors.vectors->distance(row), (*rows).keys[row]);
              }
            });
          },
          nb::arg("keys"), nb::arg("allowed").none(), nb::arg("vectors"))
      .def(
          "search_graph",
          [](BestRows& self, nb::handle keys, nb::handle allowed, const PyVectors& vectors, const Graph& graph,
             size_t width) {
            PyRows rows(keys, allowed);
            if (vectors.num_rows != rows.size() || graph.num_nodes() != rows.size()) {
              corrupt("%zu vectors and %zu nodes of %zu rows", vectors.num_rows, graph.num_nodes(), rows.size());
            }
            without_gil([&] { graph.search(self, *rows, width, *vectors.vectors); });
          },
          nb::arg("keys"), nb::arg("allowed").none(), nb::arg("vectors"), nb::arg("graph"), nb::arg("width"))
      .def("merge", &BestRows::merge, nb::arg("other"))
      .def_prop_ro("are_distinct", &BestRows::are_distinct);

  nb::class_<PyQueriedRows>(m, "QueriedRows")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, size_t, nb::handle, nb::handle, nb::handle,
                    nb::handle, nb::handle>(),
           nb::arg("keys"), nb::arg("codes"), nb::arg("queries"), nb::arg("allowed").none() = nb::none(),
           nb::arg("partition") = 0, nb::arg("row_scales").none() = nb::none(),
           nb::arg("row_offsets").none() = nb::none(), nb::arg("shifts").none() = nb::none(),
           nb::arg("offsets").none() = nb::none(), nb::arg("shares").none() = nb::none());
  m.def(
      "scan_compared",
      [](const BestOfQueries& best, const PyAllQueriedRows& rows, const Comparison& comparison, float scale,
         float offset) {
        if (!comparison.is_one_by_one()) corrupt("queries that are not compared one by one");
        AllQueriedRows all = checked(rows, best, comparison.vector_bytes(), comparison.num_queries());
        without_gil([&] { scan_compared(best, all, {scale, offset}, comparison); });
      },
      nb::arg("best"), nb::arg("rows"), nb::arg("comparison"), nb::arg("scale") = 1.0f, nb::arg("offset") = 0.0f);
  m.def(
      "scan_lookups",
      [](const BestOfQueries& best, const PyAllQueriedRows& rows, nb::handle tables, size_t num_sub_vectors,
         unsigned bits, float scale, float offset) {
        require_bits(bits, num_sub_vectors);
        Source source(tables);
        LookupTables found{nullptr, num_sub_vectors, bits};
        size_t num_tables = source.bytes().size / sizeof(float) / times(num_sub_vectors, size_t{1} << bits);
        found.tables = elements<float>(source.bytes(), times(num_tables, found.table_size()), "table entries");
        AllQueriedRows all = checked(rows, best, found.bytes_per_row(), num_tables);
        without_gil([&] { scan_lookups(best, all, {scale, offset}, found); });
      },
      nb::arg("best"), nb::arg("rows"), nb::arg("tables"), nb::arg("num_sub_vectors"), nb::arg("bits"),
      nb::arg("scale") = 1.0f, nb::arg("offset") = 0.0f);
  m.def(
      "scan_product_codes",
      [](const BestOfQueries& best, const PyAllQueriedRows& rows, nb::handle queries, nb::handle codebook,
         size_t num_sub_vectors, unsigned bits, float scale, float offset, nb::handle centroids) {
        require_bits(bits, num_sub_vectors);
        Source query_source(queries), codebook_source(codebook);
        OptionalSource centroid_source(centroids);
        ProductQueries asked;
        asked.dimension = codebook_source.bytes().size / sizeof(float) >> bits;
        asked.num_sub_vectors = num_sub_vectors;
        asked.bits = bits;
        asked.codebook = elements<float>(codebook_source.bytes(), times(asked.dimension, size_t{1} << bits),
                                         "elements of codewords");
        if (asked.dimension == 0 || asked.dimension % num_sub_vectors != 0) {
          corrupt("%zu dimensions in %zu sub-vectors", asked.dimension, num_sub_vectors);
        }
        size_t num_queries = query_source.bytes().size / sizeof(float) / asked.dimension;
        asked.queries =
            elements<float>(query_source.bytes(), times(num_queries, asked.dimension), "elements of queries");
        AllQueriedRows all = checked(rows, best, bits == 8 ? num_sub_vectors : num_sub_vectors / 2, num_queries);
        if (!centroids.is_none()) {
          size_t num_centroids = centroid_source.bytes().size / sizeof(float) / asked.dimension;
          asked.centroids =
              elements<float>(centroid_source.bytes(), times(num_centroids, asked.dimension), "elements of centroids");
          for (const QueriedRows* each : all) {
            if (each->partition >= num_centroids) corrupt("partition %zu of %zu", each->partition, num_centroids);
          }
        }
        without_gil([&] { scan_product_codes(best, all, {scale, offset}, asked); });
      },
      nb::arg("best"), nb::arg("rows"), nb::arg("queries"), nb::arg("codebook"), nb::arg("num_sub_vectors"),
      nb::arg("bits"), nb::arg("scale"), nb::arg("offset"), nb::arg("centroids").none() = nb::none());
  m.def(
      "sorted_rows",
      [](const BestOfQueries& best) {
        std::vector<int64_t> counts;
        size_t total = 0;
        for (const BestRows* each : best) {
          if (each == nullptr) corrupt("no best rows of a query");
          counts.push_back(static_cast<int64_t>(each->size()));
          total += each->size();
        }
        Block keys(total * sizeof(uint64_t)), distances(total * sizeof(float));
        size_t at = 0;
        for (const BestRows* each : best) {
          for (const BestRows::Row& row : each->sorted()) {
            store(keys.data() + at * sizeof(uint64_t), row.key);
            store(distances.data() + at * sizeof(float), row.distance);
            ++at;
          }
        }
        return std::make_tuple(std::move(keys), std::move(distances), std::move(counts));
      },
      nb::arg("best"));

  m.def(
      "lookup_table",
      [](const std::string& metric, nb::handle query, nb::handle codebook, size_t num_sub_vectors) {
        Source query_source(query), codebook_source(codebook);
        size_t dimension = query_source.bytes().size / sizeof(float);
        const float* wanted = elements<float>(query_source.bytes(), dimension, "elements of a query");
        if (num_sub_vectors == 0 || dimension == 0 || dimension % num_sub_vectors != 0) {
          corrupt("%zu dimensions in %zu sub-vectors", dimension, num_sub_vectors);
        }
        size_t num_codewords = codebook_source.bytes().size / sizeof(float) / dimension;
        const float* codewords =
            elements<float>(codebook_source.bytes(), times(dimension, num_codewords), "elements of codewords");
        TableOf what =
            nearness_of(metric) == Nearness::product ? TableOf::negative_products : TableOf::squared_distances;
        Block table(times(num_sub_vectors, num_codewords) * sizeof(float));
        without_gil([&] {
          lookup_table(what, wanted, codewords, dimension, num_sub_vectors, num_codewords,
                       reinterpret_cast<float*>(table.data()));
        });
        return table;
      },
      nb::arg("metric"), nb::arg("query"), nb::arg("codebook"), nb::arg("num_sub_vectors"));
  m.def(
      "nearest_centroids",
      [](const std::string& metric, nb::handle vectors, size_t stride, size_t start, size_t dimension,
         nb::handle centroids) {
        Source vector_source(vectors), centroid_source(centroids);
        if (dimension == 0 || start > stride || dimension > stride - start) {
          corrupt("elements [%zu, %zu) of %zu", start, start + dimension, stride);
        }
        size_t count = vector_source.bytes().size / sizeof(float) / stride;
        const float* values = elements<float>(vector_source.bytes(), times(count, stride), "elements of vectors");
        size_t num_centroids = centroid_source.bytes().size / sizeof(float) / dimension;
        const float* centers =
            elements<float>(centroid_source.bytes(), times(num_centroids, dimension), "elements of centroids");
        if (num_centroids == 0) corrupt("no centroids");
        Nearness nearness = nearness_of(metric);
        Assignment result = without_gil([&] {
          return nearest_centroids(nearness, values + start, count, stride, dimension, centers, num_centroids);
        });
        return std::make_pair(std::move(result.clusters), std::move(result.distances));
      },
      nb::arg("metric"), nb::arg("vectors"), nb::arg("stride"), nb::arg("start"), nb::arg("dimension"),
      nb::arg("centroids"));
  m.def(
      "sum_clusters",
      [](nb::handle vectors, size_t stride, size_t start, size_t dimension, nb::handle clusters, size_t num_clusters) {
        Source vector_source(vectors), cluster_source(clusters);
        if (dimension == 0 || start > stride || dimension > stride - start) {
          corrupt("elements [%zu, %zu) of %zu", start, start + dimension, stride);
        }
        size_t count = cluster_source.bytes().size / sizeof(uint32_t);
        const uint32_t* numbers = elements<uint32_t>(cluster_source.bytes(), count, "cluster numbers");
        const float* values = elements<float>(vector_source.bytes(), times(count, stride), "elements of vectors");
        std::vector<double> sums(times(num_clusters, dimension), 0.0);
        std::vector<int64_t> counts(num_clusters, 0);
        without_gil([&] {
          add_to_clusters(values + start, count, stride, dimension, numbers, num_clusters, sums.data(), counts.data());
        });
        return std::make_pair(copied(sums), copied(counts));
      },
      nb::arg("vectors"), nb::arg("stride"), nb::arg("start"), nb::arg("dimension"), nb::arg("clusters"),
      nb::arg("num_clusters"));
  m.def(
      "code_sizes",
      [](nb::handle vectors, size_t dimension, unsigned bits) {
        Source source(vectors);
        if (dimension == 0) corrupt("vectors without elements");
        size_t count = source.bytes().size / sizeof(float) / dimension;
        const float* values = elements<float>(source.bytes(), times(count, dimension), "elements of vectors");
        Block codes(times(count, dimension));
        without_gil([&] { code_sizes(values, count, dimension, bits, codes.data()); });
        return codes;
      },
      nb::arg("vectors"), nb::arg("dimension"), nb::arg("bits"));
}

}  // namespace lance
