// SPDX-License-Identifier: Apache-2.0
//
// Loads a vendor's driver or monitoring library at run time, so that one binary runs on machines
// with and without it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/status.h"

namespace ashlar {

// A loaded shared object. It is never unloaded: a driver has its own threads and exit handlers, and
// other libraries of the process may use it.
class DriverLibrary {
 public:
  // Loads the first library in `names`, such as "libcuda.so.1", that can be loaded. REQUIRES:
  // `names` is not empty. kUnsupported: no library could be loaded; the message is that of the
  // dynamic loader.
  static Result<DriverLibrary> open(std::span<const char* const> names);

  DriverLibrary(DriverLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  DriverLibrary& operator=(DriverLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~DriverLibrary();

  // Returns the element of `names` that was loaded.
  std::string_view name() const { return name_; }
  // Returns the address of an exported function; null if the library has no function of that name.
  void* find(const char* function) const;

 private:
  DriverLibrary(void* handle, const char* name) : handle_(handle), name_(name) {}

  void* handle_;
  std::string name_;
};

}  // namespace ashlar
