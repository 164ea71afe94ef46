// SPDX-License-Identifier: Apache-2.0
//
// A vendor's driver, found at run time: one binary runs on machines with and without it.
// Who opens one: the vendors' back ends, and their tools for monitoring.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/status.h"

namespace ashlar {

// A loaded shared object. It stays loaded when its owner ends: a driver has threads and an end of
// its own, and other libraries of the process may use it.
class DriverLibrary {
 public:
  // Loads the first of `names` (such as "libcuda.so.1", at least one) that the system's loader can.
  // kUnsupported: none could be loaded; the message is the loader's own reason.
  static Result<DriverLibrary> open(std::span<const char* const> names);

  DriverLibrary(DriverLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  DriverLibrary& operator=(DriverLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~DriverLibrary();

  // Which of the names it was.
  std::string_view name() const { return name_; }
  // Null when there is no such function.
  void* find(const char* function) const;

 private:
  DriverLibrary(void* handle, const char* name) : handle_(handle), name_(name) {}

  void* handle_;
  std::string name_;
};

}  // namespace ashlar
