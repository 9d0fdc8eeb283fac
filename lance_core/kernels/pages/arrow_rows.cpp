#include "pages/arrow_rows.hpp"

#include <array>
#include <memory>
#include <utility>

namespace lance {
namespace {

void release_all(std::vector<ArrowArray>& arrays) {
  for (ArrowArray& array : arrays) {
    if (array.release != nullptr) {  // otherwise the array was moved out
      array.release(&array);
    }
  }
}

struct HeldArray {
  std::array<Block, 3> blocks;
  std::array<const void*, 3> buffers{};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;

  ~HeldArray() { release_all(children); }

  void hold(size_t number, std::optional<Block> block) {
    if (block) {
      blocks[number] = std::move(*block);
      buffers[number] = blocks[number].data();
    }
  }
};

void release(ArrowArray* array) {
  delete static_cast<HeldArray*>(array->private_data);
  array->release = nullptr;
}

ArrowArray as_array(std::unique_ptr<HeldArray> held, size_t length, size_t num_buffers) {
  for (ArrowArray& child : held->children) {
    held->child_pointers.push_back(&child);
  }
  ArrowArray array{};
  array.length = static_cast<int64_t>(length);
  array.null_count = held->buffers[0] == nullptr ? 0 : -1;
  array.n_buffers = static_cast<int64_t>(num_buffers);
  array.buffers = held->buffers.data();
  array.n_children = static_cast<int64_t>(held->children.size());
  array.children = held->child_pointers.data();
  array.release = release;
  array.private_data = held.release();
  return array;
}

std::unique_ptr<HeldArray> held_values(std::optional<Block> validity, Block values, std::optional<Block> data) {
  auto held = std::make_unique<HeldArray>();
  held->hold(0, std::move(validity));
  held->hold(1, std::move(values));
  held->hold(2, std::move(data));
  return held;
}

}  // namespace

ArrowColumns::~ArrowColumns() { release_all(columns_); }

void ArrowColumns::add(DecodedRows rows, unsigned value_bits, size_t num_rows) {
  size_t num_buffers = rows.data ? 3 : 2;
  // The validity begins with the first wanted item, but the values begin with the first item of the chunk.
  size_t first_bit = rows.first_value * value_bits;
  if (rows.list_offsets && first_bit % 8 != 0) {
    corrupt("values in lists begin at bit %zu", first_bit);
  }
  auto values = held_values(std::move(rows.validity), std::move(rows.values), std::move(rows.data));
  columns_.emplace_back();
  if (!rows.list_offsets) {
    columns_.back() = as_array(std::move(values), rows.num_values, num_buffers);
    columns_.back().offset = static_cast<int64_t>(rows.first_value);
    return;
  }
  values->buffers[1] = values->blocks[1].data() + first_bit / 8;
  auto lists = std::make_unique<HeldArray>();
  lists->hold(0, std::move(rows.list_validity));
  lists->hold(1, std::move(rows.list_offsets));
  lists->children.emplace_back();
  lists->children.back() = as_array(std::move(values), rows.num_values, num_buffers);
  columns_.back() = as_array(std::move(lists), num_rows, 2);
}

ArrowArray ArrowColumns::take_rows(size_t num_rows) {
  auto held = std::make_unique<HeldArray>();
  held->children = std::move(columns_);
  columns_.clear();
  return as_array(std::move(held), num_rows, 1);
}

}  // namespace lance
