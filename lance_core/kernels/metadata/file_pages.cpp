#include "metadata/file_pages.hpp"

#include <algorithm>
#include <unordered_map>

#include "metadata/message_reader.hpp"
#include "pages/chunks.hpp"

namespace lance {
namespace {

constexpr int64_t kAlignment = 64;  // of page buffers, from 2.1 on
constexpr int64_t kMostCount = int64_t{1} << 48;
constexpr char kPageLayout[] = "lance.encodings21.PageLayout";

enum LayoutKind : uint64_t { mini_block = 1, constant = 2, full_zip = 3 };

Bytes range_of(Bytes data, int64_t offset, int64_t size) {
  if (offset < 0 || size < 0) {
    corrupt("%lld bytes at %lld", static_cast<long long>(size), static_cast<long long>(offset));
  }
  return data.slice(static_cast<size_t>(offset), static_cast<size_t>(size));
}

int64_t count_of(uint64_t value) {
  if (value > static_cast<uint64_t>(kMostCount)) {
    corrupt("a count of %llu", static_cast<unsigned long long>(value));
  }
  return static_cast<int64_t>(value);
}

// Reads a field of repeated numbers, packed or not.
void add_numbers(const MessageField& field, std::vector<uint64_t>& numbers) {
  if (field.type == WireType::varint) {
    numbers.push_back(field.value);
    return;
  }
  MessageReader packed(field.content);
  while (packed.has_more()) {
    numbers.push_back(packed.read_varint());
  }
}

// Returns the content of the only field `number` of a message, which has no other fields.
Bytes only_field(Bytes message, uint64_t number) {
  MessageReader reader(message);
  if (!reader.has_more()) {
    corrupt("a message without field %llu", static_cast<unsigned long long>(number));
  }
  MessageField field = reader.next();
  if (field.number != number || field.type != WireType::length_delimited || reader.has_more()) {
    corrupt("a message with other fields than field %llu", static_cast<unsigned long long>(number));
  }
  return field.content;
}

// The description in an `Encoding`, and its type.
struct Description {
  Bytes type_url;
  Bytes value;
};

// Returns the description in an `Encoding` that holds it directly.
Description description(Bytes encoding) {
  constexpr uint64_t kDirect = 2, kBytes = 1, kTypeUrl = 1, kValue = 2;
  MessageReader reader(only_field(only_field(encoding, kDirect), kBytes));
  Description found;
  while (reader.has_more()) {
    MessageField field = reader.next();
    if (field.number == kTypeUrl) {
      found.type_url = field.content;
    } else if (field.number == kValue) {
      found.value = field.content;
    }
  }
  const uint8_t* end = found.type_url.data + found.type_url.size;
  if (std::find(found.type_url.data, end, '/') == end ||
      std::any_of(found.type_url.data, end, [](uint8_t byte) { return byte >= 0x80; })) {
    corrupt("an encoding without a type in ASCII");
  }
  return found;
}

Bytes page_layout(Bytes encoding) {
  constexpr size_t kLength = sizeof(kPageLayout) - 1;
  Description found = description(encoding);
  Bytes url = found.type_url;
  if (url.size <= kLength || url.data[url.size - kLength - 1] != '/' ||
      std::memcmp(url.data + url.size - kLength, kPageLayout, kLength) != 0) {
    corrupt("a page without a page layout");
  }
  return found.value;
}

// Splits a page layout into the counts of the page and what pages share.
SharedLayout split_layout(Bytes message, FilePage& page) {
  MessageReader outer(message);
  if (!outer.has_more()) {
    corrupt("an empty page layout");
  }
  MessageField layout = outer.next();
  if (outer.has_more() || layout.type != WireType::length_delimited) {
    corrupt("a page layout of several fields");
  }
  SharedLayout shared{layout.number, {}};
  bool is_mini_block = layout.number == mini_block;
  MessageReader reader(layout.content);
  while (reader.has_more()) {
    MessageField field = reader.next();
    bool is_number = field.type == WireType::varint;
    if (is_number && field.number == (is_mini_block ? 9u : 5u) && layout.number != constant) {
      page.num_items = count_of(field.value);
    } else if (is_number && is_mini_block && field.number == 5) {
      page.num_dictionary_items = count_of(field.value);
    } else if (is_number && layout.number == full_zip && field.number == 6) {
      count_of(field.value);  // the number of visible items, which no decoder needs
    } else {
      shared.message.append(reinterpret_cast<const char*>(field.whole.data), field.whole.size);
    }
  }
  return shared;
}

// Parses the page of one file, and returns its layout.
SharedLayout parse_page(Bytes message, int64_t file_start, int64_t file_size, FilePage& page) {
  std::vector<uint64_t> offsets, sizes;
  Bytes encoding;
  MessageReader reader(message);
  while (reader.has_more()) {
    MessageField field = reader.next();
    switch (field.number) {
      case 1:
        add_numbers(field, offsets);
        break;
      case 2:
        add_numbers(field, sizes);
        break;
      case 3:
        page.num_rows = count_of(field.value);
        break;
      case 4:
        encoding = field.content;
        break;
      default:
        break;
    }
  }
  if (offsets.size() != sizes.size() || offsets.size() > kMostPageBuffers) {
    corrupt("%zu positions and %zu sizes of page buffers", offsets.size(), sizes.size());
  }
  page.num_buffers = static_cast<int64_t>(offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t offset = count_of(offsets[i]), size = count_of(sizes[i]);
    if (offset + size > file_size || (size != 0 && offset % kAlignment != 0)) {
      corrupt("a page buffer of %lld bytes at %lld", static_cast<long long>(size), static_cast<long long>(offset));
    }
    page.buffers[2 * i] = file_start + offset;
    page.buffers[2 * i + 1] = size;
  }
  return split_layout(page_layout(encoding), page);
}

}  // namespace

FilePages parse_file_pages(Bytes data, const FilePlaces& places) {
  constexpr uint64_t kEncoding = 1, kPages = 2;
  size_t n = places.starts.size();
  if (places.sizes.size() != n || places.metadata.size() != n || places.metadata_sizes.size() != n) {
    corrupt("places of %zu files and %zu metadata", n, places.metadata.size());
  }
  FilePages found;
  std::unordered_map<std::string, int64_t> numbers;
  for (size_t i = 0; i < n; ++i) {
    range_of(data, places.starts[i], places.sizes[i]);
    MessageReader reader(range_of(data, places.metadata[i], places.metadata_sizes[i]));
    FilePage page{};
    size_t num_pages = 0;
    Bytes encoding;  // of the column; nothing in it is needed, but it has to be sound
    while (reader.has_more()) {
      MessageField field = reader.next();
      if (field.number == kEncoding) {
        encoding = field.content;
      }
      if (field.number != kPages) {
        continue;
      }
      if (num_pages++ != 0) {
        break;
      }
      SharedLayout layout = parse_page(field.content, places.starts[i], places.sizes[i], page);
      std::string key = std::to_string(layout.kind) + ":" + layout.message;
      auto [place, is_new] = numbers.try_emplace(std::move(key), static_cast<int64_t>(found.layouts.size()));
      if (is_new) {
        found.layouts.push_back(std::move(layout));
      }
      page.layout = place->second;
    }
    description(encoding);
    if (num_pages != 1) {
      corrupt("file %zu has not one page", i);
    }
    found.pages.push_back(page);
  }
  return found;
}

Block join_ranges(Bytes data, const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes) {
  if (offsets.size() != sizes.size()) {
    corrupt("%zu positions and %zu sizes", offsets.size(), sizes.size());
  }
  size_t total = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    total += range_of(data, offsets[i], sizes[i]).size;
    if (total > static_cast<size_t>(kMostCount)) {
      corrupt("ranges of more than %lld bytes", static_cast<long long>(kMostCount));
    }
  }
  Block joined(total);
  size_t at = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    auto size = static_cast<size_t>(sizes[i]);
    copy_bytes(joined.data() + at, data.data + offsets[i], size);
    at += size;
  }
  return joined;
}

JoinedChunks join_chunks(Bytes data, const std::vector<int64_t>& words, const std::vector<int64_t>& chunks,
                         const std::vector<int64_t>& num_values, bool large) {
  size_t n = num_values.size();
  if (words.size() != 2 * n || chunks.size() != 2 * n) {
    corrupt("%zu places of words and %zu of chunks for %zu pages", words.size(), chunks.size(), n);
  }
  JoinedChunks joined;
  std::vector<int64_t> offsets(n), sizes(n);
  int64_t num_bytes = 0, values = 0;
  for (size_t i = 0; i < n; ++i) {
    if (num_values[i] < 0 || num_values[i] > kMostCount - values) {
      corrupt("a page of %lld values", static_cast<long long>(num_values[i]));
    }
    range_of(data, chunks[2 * i], chunks[2 * i + 1]);
    ChunkPlaces places =
        locate_chunks(range_of(data, words[2 * i], words[2 * i + 1]), large, num_values[i], chunks[2 * i + 1]);
    size_t count = places.position.size() / sizeof(int64_t) - 1;
    for (size_t k = 0; k < count; ++k) {
      joined.position.push_back(num_bytes + load<int64_t>(places.position.data() + 8 * k));
      joined.first_value.push_back(values + load<int64_t>(places.first_value.data() + 8 * k));
    }
    joined.num_chunks.push_back(static_cast<int64_t>(count));
    offsets[i] = chunks[2 * i];
    sizes[i] = load<int64_t>(places.position.data() + 8 * count);
    num_bytes += sizes[i];
    values += num_values[i];
  }
  joined.position.push_back(num_bytes);
  joined.first_value.push_back(values);
  joined.data = join_ranges(data, offsets, sizes);
  return joined;
}

}  // namespace lance
