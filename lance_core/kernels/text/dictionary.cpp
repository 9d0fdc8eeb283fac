#include "text/dictionary.hpp"

#include <algorithm>
#include <cstring>

namespace lance {
namespace {

constexpr size_t kHeader = 16, kFooter = 20;
constexpr size_t kIndexedFrom = 33;  // nodes with so many steps have an index of their bytes
constexpr char kCommon[] = "te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";

uint64_t packed(const uint8_t* data, size_t bytes) {
  uint64_t value = 0;
  copy_bytes(&value, data, bytes);
  return value;
}

// A node of a map. Its parts lie below its address, the step with the smallest byte on top.
class Node {
 public:
  Node(Bytes map, size_t address) : data_(map.data) {
    if (address == 0) {
      is_final = true;
      return;
    }
    if (address < kHeader || address >= map.size - kFooter) {
      corrupt("a node at %zu of a map of %zu bytes", address, map.size);
    }
    uint8_t state = map.data[address];
    size_t at = address;
    if (state >= 0x80) {
      num_steps = 1;
      common_ = state & 0x3F;
      if (common_ > sizeof(kCommon) - 1) {
        corrupt("a node at %zu has the common byte %u", address, common_);
      }
      if (common_ == 0) {
        inputs_ = down(at, 1);
      }
      if (state >= 0xC0) {
        targets_next_ = true;
      } else {
        read_sizes(at);
        addresses_ = down(at, address_bytes_);
        outputs_ = down(at, output_bytes_);
      }
    } else {
      is_final = (state & 0x40) != 0;
      num_steps = state & 0x3F;
      if (num_steps == 0) {
        num_steps = map.data[down(at, 1)];
        num_steps = num_steps == 1 ? 256 : num_steps;
      }
      read_sizes(at);
      if (num_steps >= kIndexedFrom) {
        down(at, 256);
      }
      inputs_ = down(at, num_steps);
      addresses_ = down(at, num_steps * address_bytes_);
      outputs_ = down(at, num_steps * output_bytes_);
      if (is_final) {
        final_output = packed(data_ + down(at, output_bytes_), output_bytes_);
      }
    }
    lowest_ = at;
    if (num_steps == 0 && !is_final) {
      corrupt("a node at %zu leads to no key", address);
    }
  }

  uint8_t input(size_t step) const {
    return common_ != 0 ? static_cast<uint8_t>(kCommon[common_ - 1]) : data_[inputs_ + num_steps - 1 - step];
  }
  size_t target(size_t step) const {
    if (targets_next_) {
      return lowest_ - 1;
    }
    uint64_t delta = packed(data_ + addresses_ + (num_steps - 1 - step) * address_bytes_, address_bytes_);
    if (delta > lowest_) {
      corrupt("a node at %zu leads %llu bytes down", lowest_, static_cast<unsigned long long>(delta));
    }
    return delta == 0 ? 0 : lowest_ - static_cast<size_t>(delta);
  }
  uint64_t output(size_t step) const {
    return targets_next_ ? 0 : packed(data_ + outputs_ + (num_steps - 1 - step) * output_bytes_, output_bytes_);
  }

  bool is_final = false;
  uint64_t final_output = 0;
  size_t num_steps = 0;

 private:
  static size_t down(size_t& at, size_t bytes) {
    if (at < kHeader + bytes) {
      corrupt("a part of %zu bytes of a node ends at %zu", bytes, at);
    }
    return at -= bytes;
  }
  void read_sizes(size_t& at) {
    uint8_t sizes = data_[down(at, 1)];
    address_bytes_ = sizes >> 4;
    output_bytes_ = sizes & 15;
    if (address_bytes_ > 8 || output_bytes_ > 8) {
      corrupt("a node at %zu has numbers of %zu and %zu bytes", at, address_bytes_, output_bytes_);
    }
  }

  const uint8_t* data_;
  size_t lowest_ = 0;  // address of the lowest byte
  unsigned common_ = 0;
  bool targets_next_ = false;
  size_t address_bytes_ = 0, output_bytes_ = 0;
  size_t inputs_ = 0, addresses_ = 0, outputs_ = 0;
};

size_t root_of(Bytes map) {
  if (map.size < kHeader + kFooter) {
    corrupt("a map of %zu bytes", map.size);
  }
  if (load<uint64_t>(map.data) != 3) {
    corrupt("a map of version %llu", static_cast<unsigned long long>(load<uint64_t>(map.data)));
  }
  return static_cast<size_t>(load<uint64_t>(map.data + map.size - 12));
}

uint64_t num_keys(Bytes map) { return load<uint64_t>(map.data + map.size - kFooter); }

}  // namespace

std::optional<uint64_t> find_key(Bytes map, Bytes key) {
  size_t root = root_of(map);
  if (num_keys(map) == 0) {
    return std::nullopt;
  }
  Node node(map, root);
  uint64_t value = 0;
  for (size_t i = 0; i < key.size; ++i) {
    size_t step = 0;
    while (step < node.num_steps && node.input(step) != key.data[i]) {
      ++step;
    }
    if (step == node.num_steps) {
      return std::nullopt;
    }
    value += node.output(step);
    node = Node(map, node.target(step));
  }
  if (!node.is_final) {
    return std::nullopt;
  }
  return value + node.final_output;
}

MapEntries expand_map(Bytes map, size_t max_bytes) {
  struct Level {
    Node node;
    size_t step;
    uint64_t value;
  };
  std::vector<Level> path;
  std::vector<uint8_t> key, keys;
  std::vector<int64_t> ends{0};
  std::vector<uint32_t> values;
  size_t root = root_of(map);
  uint64_t expected = num_keys(map);
  auto enter = [&](size_t address, uint64_t value) {
    path.push_back({Node(map, address), 0, value});
    const Node& node = path.back().node;
    if (node.is_final) {
      if (values.size() >= expected || key.size() > max_bytes - keys.size()) {
        corrupt("a map has more than %llu keys or %zu bytes of keys", static_cast<unsigned long long>(expected),
                max_bytes);
      }
      uint64_t total = value + node.final_output;
      if (total > UINT32_MAX) {
        corrupt("a term has the number %llu", static_cast<unsigned long long>(total));
      }
      keys.insert(keys.end(), key.begin(), key.end());
      ends.push_back(static_cast<int64_t>(keys.size()));
      values.push_back(static_cast<uint32_t>(total));
    }
  };
  if (expected != 0) {
    enter(root, 0);
  }
  while (!path.empty()) {
    Level& top = path.back();
    if (top.step == top.node.num_steps) {
      path.pop_back();
      if (!path.empty()) {
        key.pop_back();
      }
      continue;
    }
    size_t step = top.step++;
    key.push_back(top.node.input(step));
    if (step != 0 && key.back() <= top.node.input(step - 1)) {
      corrupt("steps of a node of a map do not ascend");
    }
    enter(top.node.target(step), top.value + top.node.output(step));
  }
  if (values.size() != expected) {
    corrupt("a map has %zu of %llu keys", values.size(), static_cast<unsigned long long>(expected));
  }
  MapEntries entries{{Block(8 * ends.size()), Block(keys.size()), values.size()}, Block(4 * values.size())};
  copy_bytes(entries.keys.offsets.data(), ends.data(), 8 * ends.size());
  copy_bytes(entries.keys.data.data(), keys.data(), keys.size());
  copy_bytes(entries.values.data(), values.data(), 4 * values.size());
  return entries;
}

namespace {

struct NewStep {
  uint8_t input;
  size_t target;
};

struct NewNode {
  std::vector<NewStep> steps;
  bool is_final = false;
  uint32_t value = 0;
};

size_t bytes_of(uint64_t value) {
  size_t bytes = 1;
  while (value >>= 8) {
    ++bytes;
  }
  return bytes;
}

void append_packed(std::vector<uint8_t>& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
}

// Writes a node above all others, and returns its address.
size_t write_node(std::vector<uint8_t>& out, const NewNode& node) {
  if (!node.is_final && node.steps.size() == 1 && node.steps[0].target + 1 == out.size()) {
    const char* found = static_cast<const char*>(std::memchr(kCommon, node.steps[0].input, sizeof(kCommon) - 1));
    if (found == nullptr) {
      out.push_back(node.steps[0].input);
    }
    out.push_back(static_cast<uint8_t>(0xC0 | (found == nullptr ? 0 : found - kCommon + 1)));
    return out.size() - 1;
  }
  size_t lowest = out.size(), n = node.steps.size();
  size_t address_bytes = 0, output_bytes = node.is_final ? bytes_of(node.value) : 0;
  for (const NewStep& step : node.steps) {
    address_bytes = std::max(address_bytes, bytes_of(lowest - step.target));
  }
  if (node.is_final) {
    append_packed(out, node.value, output_bytes);
  }
  out.insert(out.end(), n * output_bytes, 0);
  for (size_t i = n; i-- > 0;) {
    append_packed(out, lowest - node.steps[i].target, address_bytes);
  }
  for (size_t i = n; i-- > 0;) {
    out.push_back(node.steps[i].input);
  }
  if (n >= kIndexedFrom) {
    size_t start = out.size();
    out.insert(out.end(), 256, 255);
    for (size_t i = 0; i < n; ++i) {
      out[start + node.steps[i].input] = static_cast<uint8_t>(i);
    }
  }
  out.push_back(static_cast<uint8_t>(address_bytes << 4 | output_bytes));
  if (n == 0 || n > 63) {
    out.push_back(static_cast<uint8_t>(n == 256 ? 1 : n));
  }
  out.push_back(static_cast<uint8_t>((node.is_final ? 0x40 : 0) | (n == 0 || n > 63 ? 0 : n)));
  return out.size() - 1;
}

}  // namespace

Block build_map(Bytes offsets, Bytes data, Bytes values) {
  size_t n = values.size / 4;
  if (offsets.size / 8 != n + 1) {
    corrupt("%zu bytes of offsets for %zu keys", offsets.size, n);
  }
  check_offsets(offsets, n, data.size, 64);
  OffsetReader at(offsets.data, 64);
  std::vector<uint8_t> out;
  append_packed(out, 3, 8);
  append_packed(out, 0, 8);
  std::vector<NewNode> path(1);  // of the key that was added last
  Bytes last;
  auto leave = [&](size_t depth) {
    while (path.size() > depth + 1) {
      size_t address = write_node(out, path.back());
      path.pop_back();
      path.back().steps.back().target = address;
    }
  };
  for (size_t i = 0; i < n; ++i) {
    Bytes key{data.data + at[i], static_cast<size_t>(at[i + 1] - at[i])};
    size_t shared = 0, most = std::min(last.size, key.size);
    while (shared < most && last.data[shared] == key.data[shared]) {
      ++shared;
    }
    if (i != 0 && (shared == key.size || (shared < last.size && key.data[shared] < last.data[shared]))) {
      corrupt("key %zu of a map is not greater than the one before", i);
    }
    leave(shared);
    for (size_t depth = shared; depth < key.size; ++depth) {
      path.back().steps.push_back({key.data[depth], 0});
      path.emplace_back();
    }
    path.back().is_final = true;
    path.back().value = load<uint32_t>(values.data + 4 * i);
    last = key;
  }
  leave(0);
  size_t root = 0;
  if (n != 0) {
    root = write_node(out, path.back());
  }
  append_packed(out, n, 8);
  append_packed(out, root, 8);
  append_packed(out, 0, 4);
  Block map(out.size());
  copy_bytes(map.data(), out.data(), out.size());
  return map;
}

namespace {

std::vector<uint32_t> characters(Bytes text) {
  std::vector<uint32_t> found;
  for (size_t at = 0; at < text.size;) {
    uint8_t first = text.data[at++];
    uint32_t value = first;
    while (at < text.size && (text.data[at] & 0xC0) == 0x80) {
      value = value << 8 | text.data[at++];
    }
    found.push_back(value);
  }
  return found;
}

}  // namespace

std::vector<uint32_t> similar_terms(Bytes offsets, Bytes data, Bytes term, size_t distance, size_t prefix_bytes,
                                    size_t limit) {
  size_t n = offsets.size < 8 ? 0 : offsets.size / 8 - 1;
  check_offsets(offsets, n, data.size, 64);
  OffsetReader at(offsets.data, 64);
  std::vector<uint32_t> wanted = characters(term);
  size_t prefix = std::min(prefix_bytes, term.size);
  // Row i has the distances of the first i characters of a term to each prefix of the wanted one. Terms that follow
  // each other share most rows.
  std::vector<std::vector<size_t>> rows(1, std::vector<size_t>(wanted.size() + 1));
  for (size_t j = 0; j <= wanted.size(); ++j) {
    rows[0][j] = j;
  }
  std::vector<uint32_t> last, found;
  size_t valid = 0;  // rows that belong to `last`
  for (size_t i = 0; i < n && found.size() < limit; ++i) {
    Bytes candidate{data.data + at[i], static_cast<size_t>(at[i + 1] - at[i])};
    if (candidate.size < prefix || !std::equal(term.data, term.data + prefix, candidate.data)) {
      continue;
    }
    std::vector<uint32_t> current = characters(candidate);
    size_t shared = 0;
    while (shared < std::min({valid, last.size(), current.size()}) && last[shared] == current[shared]) {
      ++shared;
    }
    size_t row = shared;
    bool can_match = true;
    while (row < current.size() && can_match) {
      ++row;
      if (rows.size() <= row) {
        rows.emplace_back(wanted.size() + 1);
      }
      const std::vector<size_t>& above = rows[row - 1];
      std::vector<size_t>& here = rows[row];
      here[0] = row;
      size_t least = row;
      for (size_t j = 1; j <= wanted.size(); ++j) {
        here[j] = std::min({above[j] + 1, here[j - 1] + 1, above[j - 1] + (wanted[j - 1] != current[row - 1])});
        least = std::min(least, here[j]);
      }
      can_match = least <= distance;
    }
    valid = row;
    if (row == current.size() && can_match && rows[row][wanted.size()] <= distance) {
      found.push_back(static_cast<uint32_t>(i));
    }
    last = std::move(current);
  }
  return found;
}

}  // namespace lance
