// SPDX-License-Identifier: Apache-2.0
//
// The cores that ranks may use. Launchers like to give each rank cores of its own, so that one
// rank's say nothing about how many there are for all.
#pragma once

#include <string>
#include <string_view>

namespace ashlar::symm {

class Cores {
 public:
  Cores() = default;
  // As `bytes` says it, in which bit b of byte i is core 8 i + b.
  explicit Cores(std::string_view bytes) : bits_(bytes) {}
  // Of the calling thread; none if the system does not tell.
  static Cores of_thread();

  void add(const Cores& others);
  int count() const;
  // No more than kMostBytes.
  const std::string& bytes() const { return bits_; }
  static constexpr size_t kMostBytes = 128;

 private:
  std::string bits_;
};

}  // namespace ashlar::symm
