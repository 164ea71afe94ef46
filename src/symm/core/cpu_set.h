// SPDX-License-Identifier: Apache-2.0
//
// The cores that ranks may use. Launchers like to give each rank cores of its own, so that one
// rank's say nothing about how many there are for all.
#pragma once

#include <string>
#include <string_view>

namespace ashlar::symm {

class CpuSet {
 public:
  CpuSet() = default;
  // As `bytes` says it, in which bit b of byte i is core 8 i + b.
  explicit CpuSet(std::string_view bytes) : bits_(bytes) {}
  // Of the calling thread; none if the system does not tell.
  static CpuSet of_thread();

  void add(const CpuSet& others);
  int count() const;
  // No more than kMaxBytes.
  const std::string& bytes() const { return bits_; }
  static constexpr size_t kMaxBytes = 128;

 private:
  std::string bits_;
};

}  // namespace ashlar::symm
