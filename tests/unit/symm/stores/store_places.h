// SPDX-License-Identifier: Apache-2.0
//
// Every kind of store that there is, for tests that all of them must pass.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/store.h"

namespace ashlar::symm {

// One place where stores meet: what one of them sets, the others see.
class StorePlace {
 public:
  virtual ~StorePlace() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

struct StoreKind {
  std::string name;
  bool is_for_processes = false;
  // Null: it cannot be had here, and the test is to be skipped.
  std::function<std::unique_ptr<StorePlace>()> make;
};

std::vector<StoreKind> all_store_kinds();
std::vector<StoreKind> kinds_for_processes();
void PrintTo(const StoreKind& kind, std::ostream* out);

// A folder that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<StorePlace> make_file_place();

// Long enough for a slow machine under a sanitizer.
inline Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }
inline Deadline at_once() { return Deadline::after(std::chrono::nanoseconds(0)); }
inline constexpr std::chrono::milliseconds kNoEnd{0};

}  // namespace ashlar::symm
