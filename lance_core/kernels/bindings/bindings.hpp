// Common parts of the files that bind kernels to Python: buffers of Python objects, and work without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/variable.hpp"
#include "compression/inflate.hpp"
#include "pages/levels.hpp"

namespace lance {

namespace nb = nanobind;

// Holds the buffer of a Python object as long as a kernel or a stream uses it.
class Source {
 public:
  explicit Source(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      throw nb::python_error();
    }
  }
  ~Source() {
    nb::gil_scoped_acquire gil;
    PyBuffer_Release(&view_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  Bytes bytes() const { return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
};

// A buffer argument that may be None, which means no bytes.
class OptionalSource {
 public:
  explicit OptionalSource(nb::handle object) {
    if (!object.is_none()) {
      source_.emplace(object);
    }
  }
  Bytes bytes() const { return source_ ? source_->bytes() : Bytes{}; }

 private:
  std::optional<Source> source_;
};

struct PyStream {
  std::shared_ptr<Source> owner;
  Stream stream;
};

template <class Body>
auto without_gil(Body body) {
  nb::gil_scoped_release release;
  return body();
}

inline std::vector<int64_t> read_int64(nb::handle object) {
  Source source(object);
  Bytes bytes = source.bytes();
  if (bytes.size % 8 != 0) {
    corrupt("%zu bytes are no array of 64-bit numbers", bytes.size);
  }
  std::vector<int64_t> values(bytes.size / 8);
  copy_bytes(values.data(), bytes.data, bytes.size);
  return values;
}

inline Compressor compressor_of(const char* compression) {
  std::string name = compression;
  if (name == "none") return Compressor::none;
  if (name == "lz4") return Compressor::lz4;
  if (name == "zstd") return Compressor::zstd;
  throw nb::value_error("unknown compressor");
}

inline void require_divisor(unsigned bits, bool is_signed, uint64_t divisor) {
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) throw nb::value_error("integers of other bits");
  uint64_t most = (~uint64_t{0} >> (64 - bits)) >> (is_signed ? 1 : 0);
  if (divisor == 0 || divisor > most) throw nb::value_error("a divisor out of the range of the integers");
}

inline LevelEncoding level_encoding(const char* coding, unsigned bits) {
  std::string name = coding;
  if (name == "flat") return {LevelCoding::flat, bits};
  if (name == "inline") return {LevelCoding::bitpacked_inline, bits};
  if (name == "packed") return {LevelCoding::bitpacked, bits};
  if (name == "runs") return {LevelCoding::runs, bits};
  throw nb::value_error("unknown coding of levels");
}

using OffsetsAndData = std::tuple<Block, Block>;

inline OffsetsAndData as_tuple(VariableValues values) { return {std::move(values.offsets), std::move(values.data)}; }

// Bind the kernels of the other files in this folder.
void bind_encoders(nb::module_& m);        // encode.cpp
void bind_filters(nb::module_& m);         // filters.cpp
void bind_json(nb::module_& m);            // json.cpp
void bind_byte_functions(nb::module_& m);  // byte_functions.cpp
void bind_picks(nb::module_& m);           // single_values.cpp
void bind_miniblock(nb::module_& m);       // miniblock.cpp
void bind_file_pages(nb::module_& m);      // file_pages.cpp
void bind_vector_index(nb::module_& m);    // vector_index.cpp
void bind_scalar_index(nb::module_& m);    // scalar_index.cpp
void bind_text(nb::module_& m);            // text.cpp
void bind_index(nb::module_& m);           // index.cpp
void bind_vectors(nb::module_& m);         // vectors.cpp

}  // namespace lance
