#include "filters/candidate_ranges.hpp"

#include <utility>

namespace lance {
namespace {

// The flags of all conditions in all ranges of rows.
class Flags {
 public:
  Flags(Bytes flags, size_t num_conditions, size_t num_ranges)
      : flags_(flags.data), num_conditions_(num_conditions), num_ranges_(num_ranges) {
    if (num_conditions == 0 || flags.size % num_conditions != 0 || flags.size / num_conditions != num_ranges) {
      corrupt("%zu flags of %zu conditions in %zu ranges of rows", flags.size, num_conditions, num_ranges);
    }
  }

  bool at(size_t condition, size_t range) const { return flags_[condition * num_ranges_ + range] != 0; }

  bool all_at(size_t range) const {
    for (size_t k = 0; k < num_conditions_; ++k) {
      if (!at(k, range)) return false;
    }
    return true;
  }

  bool are_equal_at(size_t range, size_t other) const {
    for (size_t k = 0; k < num_conditions_; ++k) {
      if (at(k, range) != at(k, other)) return false;
    }
    return true;
  }

 private:
  const uint8_t* flags_;
  size_t num_conditions_;
  size_t num_ranges_;
};

}  // namespace

std::vector<CandidateRange> candidate_ranges(Bytes kept, Bytes sure, size_t num_conditions, Bytes edges,
                                             const std::vector<int64_t>& starts) {
  if (edges.size % sizeof(int64_t) != 0 || edges.size == 0) corrupt("%zu bytes of edges of 8 bytes", edges.size);
  if (starts.size() < 2) corrupt("%zu starts of fragments", starts.size());
  size_t num_ranges = edges.size / sizeof(int64_t) - 1;
  Flags may_be(kept, num_conditions, num_ranges), is_sure(sure, num_conditions, num_ranges);
  auto edge = [&](size_t number) { return load<int64_t>(edges.data + number * sizeof(int64_t)); };

  std::vector<CandidateRange> candidates;
  size_t fragment = 0;
  bool is_open = false;  // whether the last candidate range goes on
  for (size_t k = 0; k < num_ranges; ++k) {
    int64_t start = edge(k);
    while (fragment + 2 < starts.size() && starts[fragment + 1] <= start) {
      ++fragment;
      is_open = false;
    }
    if (!may_be.all_at(k)) {
      is_open = false;
      continue;
    }
    int64_t end = edge(k + 1) - starts[fragment];
    if (is_open && is_sure.are_equal_at(k, k - 1)) {
      candidates.back().end = end;
      continue;
    }
    CandidateRange candidate{fragment, start - starts[fragment], end, {}};
    for (size_t condition = 0; condition < num_conditions; ++condition) {
      if (!is_sure.at(condition, k)) candidate.asked.push_back(condition);
    }
    candidates.push_back(std::move(candidate));
    is_open = true;
  }
  return candidates;
}

}  // namespace lance
