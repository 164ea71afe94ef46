// SPDX-License-Identifier: Apache-2.0
//
// Binary responses: typed columns in little-endian byte order, as specified in
// docs/reference/formats/view.md. JavaScript reads them without parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ashlar::view {

enum class ColumnType : uint32_t { kU8 = 1, kU16, kU32, kU64, kF32, kF64 };

template <typename Number>
constexpr ColumnType column_type() {
  if constexpr (std::is_same_v<Number, uint8_t>) return ColumnType::kU8;
  if constexpr (std::is_same_v<Number, uint16_t>) return ColumnType::kU16;
  if constexpr (std::is_same_v<Number, uint32_t>) return ColumnType::kU32;
  if constexpr (std::is_same_v<Number, uint64_t>) return ColumnType::kU64;
  if constexpr (std::is_same_v<Number, float>) return ColumnType::kF32;
  static_assert(std::is_arithmetic_v<Number>);
  return ColumnType::kF64;
}

class Columns {
 public:
  // Adds a column. REQUIRES: the name has at most 16 characters.
  template <typename Number>
  void add(std::string_view name, const std::vector<Number>& values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    add({name, column_type<Number>(), sizeof(Number)}, {bytes, values.size() * sizeof(Number)});
  }

  // Adds a column with number_of(item) for each item.
  template <typename Item, typename NumberOf>
  void add(std::string_view name, const std::vector<Item>& items, const NumberOf& number_of) {
    std::vector<std::invoke_result_t<const NumberOf&, const Item&>> values;
    values.reserve(items.size());
    for (const Item& each : items) values.push_back(number_of(each));
    add(name, values);
  }

  // Returns the response, with the columns in the order in which they were added.
  std::string take();

 private:
  struct Kind {
    std::string_view name{};
    ColumnType type{};
    size_t element_bytes = 0;
  };
  void add(const Kind& kind, std::string_view bytes);

  std::string table_{};              // a row per column: name, type and count
  std::string values_{};             // all columns, each aligned to eight bytes
  std::vector<uint64_t> offsets_{};  // offsets of the columns in values_
};

}  // namespace ashlar::view
