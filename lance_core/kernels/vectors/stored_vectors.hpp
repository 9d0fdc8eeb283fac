// Vectors of a partition that graphs compare one by one with a query.
#pragma once

#include "vectors/row_sums.hpp"

namespace lance {

// Distances from a query to the rows of a partition.
class StoredVectors {
 public:
  virtual ~StoredVectors() = default;
  virtual float distance(size_t row) const = 0;
};

// Stored vectors of which each can be the query, for building graphs.
class ComparableVectors : public StoredVectors {
 public:
  virtual void set_query(size_t row) = 0;
};

class PlainVectors final : public ComparableVectors {
 public:
  PlainVectors(bool is_dot, const float* vectors, size_t dimension, const float* query)
      : is_dot_(is_dot), vectors_(vectors), query_(query), dimension_(dimension) {}

  float distance(size_t row) const override {
    const float* vector = vectors_ + row * dimension_;
    return is_dot_ ? 1 - product(query_, vector, dimension_) : squared_distance(query_, vector, dimension_);
  }
  void set_query(size_t row) override { query_ = vectors_ + row * dimension_; }

 private:
  bool is_dot_;
  const float *vectors_, *query_;
  size_t dimension_;
};

// Vectors of bits, compared by the number of differing bits.
class BitVectors final : public ComparableVectors {
 public:
  BitVectors(const uint8_t* vectors, size_t num_bytes, const uint8_t* query)
      : vectors_(vectors), query_(query), num_bytes_(num_bytes) {}

  float distance(size_t row) const override {
    return static_cast<float>(differing_bits(query_, vectors_ + row * num_bytes_, num_bytes_));
  }
  void set_query(size_t row) override { query_ = vectors_ + row * num_bytes_; }

 private:
  const uint8_t *vectors_, *query_;
  size_t num_bytes_;
};

// Codes of one byte per dimension, compared by scaled squared distances of codes.
class ScalarCodes final : public ComparableVectors {
 public:
  ScalarCodes(const uint8_t* codes, size_t dimension, const uint8_t* query, float scale)
      : codes_(codes), query_(query), dimension_(dimension), scale_(scale) {}

  float distance(size_t row) const override {
    return scale_ * static_cast<float>(squared_distance(query_, codes_ + row * dimension_, dimension_));
  }
  void set_query(size_t row) override { query_ = codes_ + row * dimension_; }

 private:
  const uint8_t *codes_, *query_;
  size_t dimension_;
  float scale_;
};

// Codes of one byte per dimension, compared by their products with a query: `offset + scale * product`.
class ScalarProducts final : public StoredVectors {
 public:
  ScalarProducts(const uint8_t* codes, size_t dimension, const float* query, float scale, float offset)
      : codes_(codes), query_(query), dimension_(dimension), scale_(scale), offset_(offset) {}

  float distance(size_t row) const override {
    return offset_ + scale_ * product(query_, codes_ + row * dimension_, dimension_);
  }

 private:
  const uint8_t* codes_;
  const float* query_;
  size_t dimension_;
  float scale_, offset_;
};

// Sums of table entries as in `scan_lookups`, but with the codes row after row.
class ProductCodes final : public StoredVectors {
 public:
  ProductCodes(const uint8_t* codes, size_t bytes_per_row, unsigned bits, const float* table, float scale, float offset)
      : codes_(codes), table_(table), bytes_per_row_(bytes_per_row), bits_(bits), scale_(scale), offset_(offset) {}

  float distance(size_t row) const override {
    const uint8_t* code = codes_ + row * bytes_per_row_;
    float sum = 0;
    for (size_t i = 0; i < bytes_per_row_; ++i) {
      sum += bits_ == 8 ? table_[i * 256 + code[i]]
                        : table_[i * 32 + (code[i] & 15)] + table_[i * 32 + 16 + (code[i] >> 4)];
    }
    return sum * scale_ + offset_;
  }

 private:
  const uint8_t* codes_;
  const float* table_;
  size_t bytes_per_row_;
  unsigned bits_;
  float scale_, offset_;
};

}  // namespace lance
