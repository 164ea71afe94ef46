// SPDX-License-Identifier: Apache-2.0
//
// Fixtures for every kind of store, for tests that all stores must pass.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/store.h"
#include "unit/symm/deadlines.h"

namespace ashlar::symm {

// Opens several stores on the same data: a value set through one is visible through all.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

struct StoreKind {
  std::string name;
  bool is_for_processes = false;
  // Creates the fixture. Returns null if this kind of store is unavailable; the test should then be
  // skipped.
  std::function<std::unique_ptr<StoreFixture>()> make;
};

std::vector<StoreKind> all_store_kinds();
std::vector<StoreKind> kinds_for_processes();
void PrintTo(const StoreKind& kind, std::ostream* out);

// A temporary directory, which the destructor removes.
class TemporaryFolder {
 public:
  // kMemory selects /dev/shm if possible. While other processes write to a disk, each rename can
  // take seconds, and dozens of ranks that wait for the lock of a store then exceed their
  // deadlines.
  enum class Medium { kAny, kMemory };

  explicit TemporaryFolder(Medium medium = Medium::kAny);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<StoreFixture> make_file_store_fixture();

inline constexpr std::chrono::milliseconds kNoExpiry{0};

}  // namespace ashlar::symm
