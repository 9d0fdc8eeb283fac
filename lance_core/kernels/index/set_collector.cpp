#include "index/set_collector.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/variable.hpp"
#include "compression/xxhash.hpp"

namespace lance {
namespace {

constexpr uint32_t kNoContainer = UINT32_MAX;
constexpr size_t kMostWaiting = size_t{1} << 20;
constexpr size_t kMemoryBytes = size_t{1} << 18;
// If fewer rows than this share of the values wait, sorting them is faster than counting the rows of each value.
constexpr size_t kSparse = 16;

uint64_t mixed(uint64_t number) {
  number *= 0x9e3779b97f4a7c15;
  return number ^ number >> 32;
}

}  // namespace

template <class IsEqual, class Add>
uint32_t ValueNumbers::find_one(uint64_t key, uint64_t hash, IsEqual is_equal, Add add) {
  size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    uint32_t found = slots_[at];
    if (found == kNone) {
      if (keys_.size() == kNone) corrupt("more than %zu values", keys_.size());
      found = slots_[at] = static_cast<uint32_t>(keys_.size());
      keys_.push_back(key);
      add();
      if (2 * keys_.size() > slots_.size()) grow();
      return found;
    }
    if (keys_[found] == key && is_equal(found)) return found;
  }
}

void ValueNumbers::grow() {
  std::vector<uint32_t> slots(2 * slots_.size(), kNone);
  size_t mask = slots.size() - 1;
  for (uint32_t value = 0; value < keys_.size(); ++value) {
    size_t at = (offset_bits_ == 0 ? mixed(keys_[value]) : keys_[value]) & mask;
    while (slots[at] != kNone) at = (at + 1) & mask;
    slots[at] = value;
  }
  slots_ = std::move(slots);
}

void ValueNumbers::find(Bytes offsets, Bytes values, size_t first, size_t end, uint32_t* to) {
  if (offset_bits_ == 0) {
    auto always = [](uint32_t) { return true; };
    for (size_t i = first; i < end; ++i) {
      auto key = load<uint64_t>(values.data + 8 * i);
      *to++ = find_one(key, mixed(key), always, [] {});
    }
    return;
  }
  OffsetReader reader(offsets.data, offset_bits_);
  for (size_t i = first; i < end; ++i) {
    Bytes text{values.data + reader[i], static_cast<size_t>(reader[i + 1] - reader[i])};
    uint64_t hash = xxhash64(text);
    auto is_equal = [&](uint32_t value) {
      Bytes known = string(value);
      return known.size == text.size && (text.size == 0 || std::memcmp(known.data, text.data, text.size) == 0);
    };
    *to++ = find_one(hash, hash, is_equal, [&] {
      bytes_.insert(bytes_.end(), text.data, text.data + text.size);
      ends_.push_back(bytes_.size());
    });
  }
}

Bytes ValueNumbers::string(uint32_t value) const {
  size_t start = value == 0 ? 0 : ends_[value - 1];
  return {bytes_.data() + start, ends_[value] - start};
}

std::vector<uint32_t> ValueNumbers::sorted() const {
  std::vector<uint32_t> order(keys_.size());
  std::iota(order.begin(), order.end(), 0);
  if (offset_bits_ == 0) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys_[a] < keys_[b]; });
  } else {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      Bytes left = string(a), right = string(b);
      size_t shared = std::min(left.size, right.size);
      int difference = shared == 0 ? 0 : std::memcmp(left.data, right.data, shared);
      return difference != 0 ? difference < 0 : left.size < right.size;
    });
  }
  return order;
}

void SetCollector::add(Bytes offsets, Bytes values, Bytes rows) {
  size_t n = rows.size / 8;
  unsigned bits = values_.offset_bits();
  if (is_finished_) corrupt("%zu rows for a finished collector", n);
  if (bits != 0) {
    check_offsets(offsets, n, values.size, bits);
  } else if (values.size != rows.size) {
    corrupt("%zu bytes of values and %zu bytes of row keys", values.size, rows.size);
  }
  for (size_t start = 0; start < n;) {
    uint64_t high = load<uint64_t>(rows.data + 8 * start) >> 16;
    if (high != high_ || waiting_.size() >= kMostWaiting) flush();
    high_ = high;
    size_t end = start, most = std::min(n, start + kMostWaiting);
    for (uint64_t row; end < most && (row = load<uint64_t>(rows.data + 8 * end)) >> 16 == high; ++end) {
      waiting_low_.push_back(static_cast<uint16_t>(row));
    }
    size_t before = waiting_.size();
    waiting_.resize(before + end - start);
    values_.find(offsets, values, start, end, waiting_.data() + before);
    start = end;
  }
}

void SetCollector::flush() {
  size_t n = waiting_.size(), num_values = values_.size();
  last_.resize(num_values, kNoContainer);
  grouped_.resize(n);
  if (n < num_values / kSparse) {
    std::vector<uint64_t> pairs(n);
    for (size_t i = 0; i < n; ++i) pairs[i] = uint64_t{waiting_[i]} << 16 | waiting_low_[i];
    std::sort(pairs.begin(), pairs.end());
    for (size_t i = 0; i < n; ++i) grouped_[i] = static_cast<uint16_t>(pairs[i]);
    for (size_t start = 0, end; start < n; start = end) {
      for (end = start + 1; end < n && pairs[end] >> 16 == pairs[start] >> 16;) ++end;
      add_container(static_cast<uint32_t>(pairs[start] >> 16), grouped_.data() + start, end - start);
    }
  } else {
    starts_.assign(num_values + 1, 0);
    for (uint32_t value : waiting_) ++starts_[value];
    uint32_t start = 0;
    for (uint32_t& each : starts_) start += std::exchange(each, start);
    for (size_t i = 0; i < n; ++i) grouped_[starts_[waiting_[i]]++] = waiting_low_[i];
    start = 0;  // the starts are the ends now
    for (size_t value = 0; value < num_values; start = starts_[value++]) {
      if (starts_[value] > start) {
        add_container(static_cast<uint32_t>(value), grouped_.data() + start, starts_[value] - start);
      }
    }
  }
  waiting_.clear();
  waiting_low_.clear();
}

void SetCollector::add_container(uint32_t value, uint16_t* numbers, size_t n) {
  if (std::adjacent_find(numbers, numbers + n, std::greater_equal<>()) != numbers + n) {
    std::sort(numbers, numbers + n);
    n = static_cast<size_t>(std::unique(numbers, numbers + n) - numbers);
  }
  size_t bytes = container_bytes(n);
  if (bytes > free_bytes_) {
    memory_.push_back(std::make_unique_for_overwrite<uint8_t[]>(kMemoryBytes));
    free_bytes_ = kMemoryBytes;
  }
  uint8_t* to = memory_.back().get() + kMemoryBytes - free_bytes_;
  free_bytes_ -= bytes;
  write_container(numbers, n, to);
  if (containers_.size() == kNoContainer) corrupt("more than %zu containers", containers_.size());
  containers_.push_back({high_, to, static_cast<uint32_t>(n), last_[value]});
  last_[value] = static_cast<uint32_t>(containers_.size() - 1);
}

size_t SetCollector::num_bytes() const {
  return values_.num_bytes() + memory_.size() * kMemoryBytes + containers_.capacity() * sizeof(KeyContainer) +
         8 * values_.size() + 6 * waiting_.capacity();
}

void SetCollector::finish() {
  flush();
  is_finished_ = true;
  order_ = values_.sorted();
}

void SetCollector::append_containers(uint32_t value, std::vector<KeyContainer>& to, MergedContainers& merged) const {
  size_t first = to.size();
  for (uint32_t at = last_[value]; at != kNoContainer; at = containers_[at].previous) to.push_back(containers_[at]);
  std::reverse(to.begin() + static_cast<std::ptrdiff_t>(first), to.end());
  normalize(to, first, merged);
}

CollectedSets SetCollector::sets(size_t first, size_t most_bytes, SetContainer form) const {
  if (!is_finished_ || first > order_.size()) corrupt("sets from %zu of %zu", first, order_.size());
  unsigned bits = values_.offset_bits();
  std::vector<KeyContainer> containers;
  std::vector<size_t> ends;
  MergedContainers merged;
  size_t size = 0, value_bytes = 0, end = first;
  for (; end < order_.size(); ++end) {
    size_t before = containers.size();
    append_containers(order_[end], containers, merged);
    size_t bytes = set_bytes(containers.data() + before, containers.data() + containers.size(), form);
    size_t width = bits == 0 ? 8 : values_.string(order_[end]).size;
    if (end > first && size + bytes + value_bytes + width > most_bytes) {
      containers.resize(before);
      break;
    }
    size += bytes;
    value_bytes += width;
    ends.push_back(containers.size());
  }
  size_t n = end - first;
  CollectedSets found{n, Block(), Block(value_bytes), write_sets(containers, ends, form)};
  if (bits == 0) {
    for (size_t i = 0; i < n; ++i) store(found.values.data() + 8 * i, values_.number(order_[first + i]));
    return found;
  }
  if (bits == 32 && value_bytes > INT32_MAX) throw OffsetOverflow("more bytes than 32-bit offsets can address");
  found.offsets = Block(bits / 8 * (n + 1));
  uint64_t at = 0;
  for (size_t i = 0; i <= n; ++i) {
    if (bits == 64) {
      store<uint64_t>(found.offsets.data() + 8 * i, at);
    } else {
      store<uint32_t>(found.offsets.data() + 4 * i, static_cast<uint32_t>(at));
    }
    if (i == n) break;
    Bytes text = values_.string(order_[first + i]);
    copy_bytes(found.values.data() + at, text.data, text.size);
    at += text.size;
  }
  return found;
}

}  // namespace lance
