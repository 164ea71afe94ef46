// SPDX-License-Identifier: Apache-2.0
//
// The CPU cores on which a rank may run. Launchers often bind each rank to its own cores, so the
// number of cores that are available to the ranks of a machine together is the size of the union of
// their sets.
#pragma once

#include <string>
#include <string_view>

namespace ashlar::symm {

class CpuSet {
 public:
  CpuSet() = default;
  // Parses the result of `bytes()`: bit b of byte i is core 8 i + b.
  explicit CpuSet(std::string_view bytes) : bits_(bytes) {}
  // Returns the affinity mask of the calling thread, or an empty set if the system call fails.
  static CpuSet of_thread();

  // Adds the cores of `other` (set union).
  void add(const CpuSet& other);
  int count() const;
  // The set as a bit string of at most kMaxBytes bytes.
  const std::string& bytes() const { return bits_; }
  static constexpr size_t kMaxBytes = 128;

 private:
  std::string bits_;
};

}  // namespace ashlar::symm
