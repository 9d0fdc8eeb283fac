#include "arrow_rows.hpp"

#include <memory>
#include <utility>

namespace lance {
namespace {

struct HeldColumn {
  TakenColumn column;
  const void* buffers[3];
};

struct HeldRows {
  std::vector<ArrowArray> columns;
  std::vector<ArrowArray*> children;
  const void* buffers[1] = {nullptr};
};

void release_column(ArrowArray* array) {
  delete static_cast<HeldColumn*>(array->private_data);
  array->release = nullptr;
}

void release_rows(ArrowArray* array) {
  auto* held = static_cast<HeldRows*>(array->private_data);
  for (ArrowArray& column : held->columns) {
    if (column.release != nullptr) {  // else somebody took it out
      column.release(&column);
    }
  }
  delete held;
  array->release = nullptr;
}

ArrowArray arrow_column(TakenColumn column, size_t num_rows) {
  auto held = std::make_unique<HeldColumn>();
  held->column = std::move(column);
  const TakenColumn& kept = held->column;
  held->buffers[0] = kept.validity ? kept.validity->data() : nullptr;
  held->buffers[1] = kept.values.data();
  held->buffers[2] = kept.data ? kept.data->data() : nullptr;
  ArrowArray array{};
  array.length = static_cast<int64_t>(num_rows);
  array.null_count = kept.validity ? -1 : 0;
  array.n_buffers = kept.data ? 3 : 2;
  array.buffers = held->buffers;
  array.release = release_column;
  array.private_data = held.release();
  return array;
}

}  // namespace

ArrowArray arrow_rows(std::vector<TakenColumn> columns, size_t num_rows) {
  auto held = std::make_unique<HeldRows>();
  held->columns.reserve(columns.size());
  held->children.reserve(columns.size());
  for (TakenColumn& column : columns) {
    held->columns.push_back(arrow_column(std::move(column), num_rows));
    held->children.push_back(&held->columns.back());
  }
  ArrowArray array{};
  array.length = static_cast<int64_t>(num_rows);
  array.n_buffers = 1;
  array.buffers = held->buffers;
  array.n_children = static_cast<int64_t>(columns.size());
  array.children = held->children.data();
  array.release = release_rows;
  array.private_data = held.release();
  return array;
}

}  // namespace lance
