// Bindings of the kernels for filters on decoded values, their bitmaps and their statistics.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "filters/candidate_ranges.hpp"
#include "filters/kept_values.hpp"
#include "filters/positions.hpp"
#include "filters/statistics.hpp"

namespace lance {
namespace {

Order order_of(const char* order) {
  std::string name = order;
  if (name == "bits") return Order::bits;
  if (name == "signed") return Order::signed_integers;
  if (name == "unsigned") return Order::unsigned_integers;
  if (name == "floats") return Order::floats;
  if (name == "bytes") return Order::bytes;
  throw nb::value_error("unknown order of values");
}

}  // namespace

void bind_filters(nb::module_& m) {
  m.def(
      "set_positions",
      [](nb::handle bits, size_t start, size_t n, uint32_t first) {
        Source source(bits);
        return without_gil([&] { return set_positions(source.bytes(), start, n, first); });
      },
      nb::arg("bits"), nb::arg("start"), nb::arg("n"), nb::arg("first"));
  m.def(
      "has_dense_blocks",
      [](nb::handle bits, size_t start, size_t n, size_t block_bits, double least_share) {
        Source source(bits);
        return without_gil([&] { return has_dense_blocks(source.bytes(), start, n, block_bits, least_share); });
      },
      nb::arg("bits"), nb::arg("start"), nb::arg("n"), nb::arg("block_bits"), nb::arg("least_share"));
  m.def(
      "kept_values",
      [](nb::handle values, size_t width, nb::handle mask, size_t start, size_t n) {
        Source value_source(values), mask_source(mask);
        return without_gil([&] { return kept_values(value_source.bytes(), width, mask_source.bytes(), start, n); });
      },
      nb::arg("values"), nb::arg("width"), nb::arg("mask"), nb::arg("start"), nb::arg("n"));
  m.def(
      "kept_bits",
      [](nb::handle bits, size_t first, nb::handle mask, size_t start, size_t n) {
        Source source(bits), mask_source(mask);
        return without_gil([&] { return kept_bits(source.bytes(), first, mask_source.bytes(), start, n); });
      },
      nb::arg("bits"), nb::arg("first"), nb::arg("mask"), nb::arg("start"), nb::arg("n"));
  m.def(
      "candidate_ranges",
      [](nb::handle kept, nb::handle sure, size_t num_conditions, nb::handle edges,
         const std::vector<int64_t>& starts) {
        Source kept_source(kept), sure_source(sure), edge_source(edges);
        std::vector<CandidateRange> candidates = without_gil([&] {
          return candidate_ranges(kept_source.bytes(), sure_source.bytes(), num_conditions, edge_source.bytes(),
                                  starts);
        });
        nb::list result;
        for (const CandidateRange& each : candidates) {
          result.append(nb::make_tuple(each.fragment, each.start, each.end, nb::tuple(nb::cast(each.asked))));
        }
        return result;
      },
      nb::arg("kept"), nb::arg("sure"), nb::arg("num_conditions"), nb::arg("edges"), nb::arg("starts"));
  m.def(
      "bits_except",
      [](nb::handle positions, size_t n) {
        Source source(positions);
        return without_gil([&] { return bits_except(source.bytes(), n); });
      },
      nb::arg("positions"), nb::arg("n"));
  m.def(
      "fixed_zones",
      [](nb::handle values, nb::handle validity, size_t start, size_t num_values, size_t rows_per_zone,
         const char* order, size_t width) {
        Source value_source(values);
        OptionalSource validity_source(validity);
        Order how = order_of(order);
        FixedZones zones = without_gil([&] {
          return fixed_zones(value_source.bytes(), validity_source.bytes(), start, num_values, rows_per_zone, how,
                             width);
        });
        return std::make_tuple(std::move(zones.counts.nulls), std::move(zones.counts.nans),
                               std::move(zones.counts.known), std::move(zones.least), std::move(zones.most));
      },
      nb::arg("values"), nb::arg("validity").none(), nb::arg("start"), nb::arg("num_values"), nb::arg("rows_per_zone"),
      nb::arg("order"), nb::arg("width"));
  m.def(
      "variable_zones",
      [](nb::handle offsets, nb::handle data, nb::handle validity, size_t start, size_t num_values,
         size_t rows_per_zone, unsigned offset_bits, size_t limit, bool utf8) {
        Source offset_source(offsets), data_source(data);
        OptionalSource validity_source(validity);
        VariableZones zones = without_gil([&] {
          return variable_zones(offset_source.bytes(), data_source.bytes(), validity_source.bytes(), start, num_values,
                                rows_per_zone, offset_bits, limit, utf8);
        });
        auto bounds = [](VariableBounds side) {
          return std::make_tuple(std::move(side.known), std::move(side.offsets), std::move(side.data));
        };
        return std::make_tuple(std::move(zones.nulls), bounds(std::move(zones.least)), bounds(std::move(zones.most)));
      },
      nb::arg("offsets"), nb::arg("data"), nb::arg("validity").none(), nb::arg("start"), nb::arg("num_values"),
      nb::arg("rows_per_zone"), nb::arg("offset_bits"), nb::arg("limit"), nb::arg("utf8"));
}

}  // namespace lance
