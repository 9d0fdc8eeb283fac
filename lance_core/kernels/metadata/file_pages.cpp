#include "metadata/file_pages.hpp"

#include <algorithm>
#include <unordered_map>

#include "metadata/message_reader.hpp"
#include "pages/chunks.hpp"

namespace lance {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 48;
constexpr char kPageLayout[] = "lance.encodings21.PageLayout";
constexpr char kArrayEncoding[] = "lance.encodings.ArrayEncoding";
constexpr char kColumnEncoding[] = "lance.encodings.ColumnEncoding";

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

// Returns the message in an `Encoding`, which has to have the type `name`.
Bytes described(Bytes encoding, const std::string& name) {
  Description found = description(encoding);
  Bytes url = found.type_url;
  size_t length = name.size();
  if (url.size <= length || url.data[url.size - length - 1] != '/' ||
      std::memcmp(url.data + url.size - length, name.data(), length) != 0) {
    corrupt("a description that is no %s", name.c_str());
  }
  return found.value;
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
}

void append_bytes(std::string& out, Bytes bytes) { out.append(reinterpret_cast<const char*>(bytes.data), bytes.size); }

void append_message(std::string& out, uint64_t number, const std::string& message) {
  append_varint(out, number << 3 | static_cast<unsigned>(WireType::length_delimited));
  append_varint(out, message.size());
  out += message;
}

// Appends the encoding of the values of mini-blocks without the symbol table of FSST, whose place in `data` goes to
// `page`.
void split_symbols(const MessageField& encoding, Bytes data, FilePage& page, std::string& out) {
  constexpr uint64_t kFsst = 6, kSymbolTable = 1;
  MessageReader outer(encoding.content);
  MessageField fsst = outer.has_more() ? outer.next() : MessageField{};
  if (fsst.number != kFsst || fsst.type != WireType::length_delimited || outer.has_more()) {
    append_bytes(out, encoding.whole);
    return;
  }
  std::string rest, message;
  MessageReader reader(fsst.content);
  while (reader.has_more()) {
    MessageField field = reader.next();
    if (field.number != kSymbolTable || field.type != WireType::length_delimited) {
      append_bytes(rest, field.whole);
    } else if (page.symbols[1] != 0) {
      corrupt("two symbol tables");
    } else {
      page.symbols[0] = field.content.data - data.data;
      page.symbols[1] = static_cast<int64_t>(field.content.size);
    }
  }
  append_message(message, kFsst, rest);
  append_message(out, encoding.number, message);
}

// Splits the page layout of a page of 2.1 and 2.2 into the counts of the page and what pages share.
SharedLayout split_layout(Bytes data, Bytes column, Bytes encoding, FilePage& page) {
  description(column);  // nothing in it is needed, but it has to be sound
  MessageReader outer(described(encoding, kPageLayout));
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
      page.counts[0] = count_of(field.value);
    } else if (is_number && is_mini_block && field.number == 5) {
      page.counts[1] = count_of(field.value);
    } else if (is_number && layout.number == full_zip && field.number == 6) {
      count_of(field.value);  // the number of visible items, which no decoder needs
    } else if (is_mini_block && field.number == 3 && field.type == WireType::length_delimited) {
      split_symbols(field, data, page, shared.message);
    } else {
      append_bytes(shared.message, field.whole);
    }
  }
  return shared;
}

// The messages in an `ArrayEncoding` that have counts, or that have messages with counts.
enum class ArrayMessage {
  array,
  nullable,
  no_nulls,
  some_nulls,
  fixed_size_list,
  list,
  binary,
  dictionary,
  fsst,
  other
};

// Returns the message that a field of a message has; `other` for a field that is kept as it is.
ArrayMessage message_in(ArrayMessage message, uint64_t field) {
  using M = ArrayMessage;
  switch (message) {
    case M::array:
      return field == 2   ? M::nullable
             : field == 3 ? M::fixed_size_list
             : field == 4 ? M::list
             : field == 6 ? M::binary
             : field == 7 ? M::dictionary
             : field == 8 ? M::fsst
                          : M::other;
    case M::nullable:
      return field == 1 ? M::no_nulls : field == 2 ? M::some_nulls : M::other;
    case M::some_nulls:
    case M::binary:
    case M::dictionary:
      return field == 1 || field == 2 ? M::array : M::other;
    case M::no_nulls:
    case M::list:
    case M::fsst:
      return field == 1 ? M::array : M::other;
    case M::fixed_size_list:
      return field == 2 ? M::array : M::other;
    default:
      return M::other;
  }
}

// Returns the field of the first count in a message, and the number of counts, which follow each other.
std::pair<uint64_t, size_t> counts_in(ArrayMessage message) {
  switch (message) {
    case ArrayMessage::list:
      return {2, 2};
    case ArrayMessage::binary:
    case ArrayMessage::dictionary:
      return {3, 1};
    default:
      return {0, 0};
  }
}

// Appends a message of an `ArrayEncoding` without its counts, which go to `page`. `num_counts` are there already.
void split_array(Bytes message, ArrayMessage kind, FilePage& page, size_t& num_counts, std::string& out,
                 unsigned depth) {
  constexpr unsigned kMostDepth = 32;
  auto [first_field, num_mine] = counts_in(kind);
  size_t first = num_counts;
  num_counts += num_mine;
  if (num_counts > kMostPageCounts || depth > kMostDepth) {
    corrupt("an encoding of %zu counts at depth %u", num_counts, depth);
  }
  MessageReader reader(message);
  uint64_t last = 0;
  while (reader.has_more()) {
    MessageField field = reader.next();
    bool is_choice = kind == ArrayMessage::array || kind == ArrayMessage::nullable;
    if (field.number <= last || (is_choice && last != 0)) {
      corrupt("a message with field %llu behind field %llu", static_cast<unsigned long long>(field.number),
              static_cast<unsigned long long>(last));
    }
    last = field.number;
    ArrayMessage below = message_in(kind, field.number);
    if (field.type == WireType::varint && field.number - first_field < num_mine) {
      bool is_short = kind == ArrayMessage::dictionary;  // a number of 32 bits
      if (is_short && field.value > UINT32_MAX) {
        corrupt("a dictionary of %llu items", static_cast<unsigned long long>(field.value));
      }
      page.counts[first + (field.number - first_field)] = count_of(field.value);
    } else if (field.type == WireType::length_delimited && below != ArrayMessage::other) {
      std::string content;
      split_array(field.content, below, page, num_counts, content, depth + 1);
      append_message(out, field.number, content);
    } else {
      append_bytes(out, field.whole);
    }
  }
}

// Splits the encoding of a page of 2.0 into its counts and what pages share.
SharedLayout split_array_encoding(Bytes /*data*/, Bytes column, Bytes encoding, FilePage& page) {
  constexpr uint64_t kValues = 1;
  only_field(described(column, kColumnEncoding), kValues);
  Bytes message = described(encoding, kArrayEncoding);
  SharedLayout shared{0, {}};
  size_t num_counts = 0;
  split_array(message, ArrayMessage::array, page, num_counts, shared.message, 0);
  if (message.size != 0) {
    shared.kind = MessageReader(message).next().number;
  }
  return shared;
}

// Splits the description of a page, and of its column, into the counts of the page and what pages share.
using Split = SharedLayout (*)(Bytes data, Bytes column, Bytes encoding, FilePage& page);

// Parses the page of one file. Returns its `Encoding`.
Bytes parse_page(Bytes message, int64_t file_start, int64_t file_size, int64_t alignment, FilePage& page) {
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
    if (offset + size > file_size || (size != 0 && offset % alignment != 0)) {
      corrupt("a page buffer of %lld bytes at %lld", static_cast<long long>(size), static_cast<long long>(offset));
    }
    page.buffers[2 * i] = file_start + offset;
    page.buffers[2 * i + 1] = size;
  }
  return encoding;
}

FilePages parse_pages(Bytes data, const FilePlaces& places, int64_t alignment, Split split) {
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
    Bytes column, encoding;
    while (reader.has_more()) {
      MessageField field = reader.next();
      if (field.number == kEncoding) {
        column = field.content;
      } else if (field.number == kPages && num_pages++ == 0) {
        encoding = parse_page(field.content, places.starts[i], places.sizes[i], alignment, page);
      } else {
        corrupt("field %llu in a column of file %zu", static_cast<unsigned long long>(field.number), i);
      }
    }
    if (num_pages != 1) {
      corrupt("file %zu has not one page", i);
    }
    SharedLayout layout = split(data, column, encoding, page);
    std::string key = std::to_string(layout.kind) + ":" + layout.message;
    auto [place, is_new] = numbers.try_emplace(std::move(key), static_cast<int64_t>(found.layouts.size()));
    if (is_new) {
      found.layouts.push_back(std::move(layout));
    }
    page.layout = place->second;
    found.pages.push_back(page);
  }
  return found;
}

}  // namespace

FilePages parse_file_pages(Bytes data, const FilePlaces& places) {
  constexpr int64_t kAlignment = 64;  // of page buffers, from 2.1 on
  return parse_pages(data, places, kAlignment, split_layout);
}

FilePages parse_file_arrays(Bytes data, const FilePlaces& places) {
  return parse_pages(data, places, 1, split_array_encoding);
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
