// SPDX-License-Identifier: Apache-2.0
//
// Reads binary responses according to docs/reference/formats/view.md, independently of the writer.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace ashlar {

class ColumnsReader {
 public:
  explicit ColumnsReader(const std::string& bytes) : bytes_(bytes) {
    EXPECT_EQ(bytes_.substr(0, 4), "ASHV");
    const auto count = number<uint32_t>(4);
    for (uint32_t i = 0; i < count; ++i) {
      const size_t row = 8 + size_t{32} * i;
      const std::string name = bytes_.substr(row, 16).c_str();
      places_[name] = {number<uint32_t>(row + 16), number<uint32_t>(row + 20),
                       number<uint64_t>(row + 24)};
      EXPECT_EQ(places_[name].begin % 8, 0U) << name;
    }
  }

  bool has(const std::string& name) const { return places_.contains(name); }
  size_t size() const { return places_.size(); }

  template <typename Number>
  std::vector<Number> column(const std::string& name) const {
    const auto found = places_.find(name);
    EXPECT_NE(found, places_.end()) << name;
    if (found == places_.end()) return {};
    const size_t element_bytes[] = {0, 1, 2, 4, 8, 4, 8};
    EXPECT_EQ(element_bytes[found->second.type], sizeof(Number)) << name;
    EXPECT_EQ(found->second.type > 4, std::is_floating_point_v<Number>) << name;
    std::vector<Number> values(found->second.count);
    EXPECT_LE(found->second.begin + values.size() * sizeof(Number), bytes_.size()) << name;
    if (!values.empty()) {
      std::memcpy(values.data(), bytes_.data() + found->second.begin,
                  values.size() * sizeof(Number));
    }
    return values;
  }

 private:
  struct Place {
    uint32_t type = 0;
    uint32_t count = 0;
    uint64_t begin = 0;
  };

  template <typename Number>
  Number number(size_t at) const {
    Number value{};
    EXPECT_LE(at + sizeof(value), bytes_.size());
    std::memcpy(&value, bytes_.data() + at, sizeof(value));
    return value;
  }

  std::string bytes_;
  std::map<std::string, Place> places_;
};

}  // namespace ashlar
