// A vendor's driver, found at run time: one binary runs on machines with and without it.
// Who opens one: the probes in registry.cc, and the back ends that call into it.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "ashlar/status.h"

namespace ashlar {

// A loaded shared object; closed by its owner's end.
class DriverLibrary {
 public:
  // Loads the first of `names` (such as "libcuda.so.1", literals, at least one) that the system's
  // loader can.
  // kUnsupported: none could be loaded; the message is the loader's own reason.
  static Result<DriverLibrary> open(std::span<const char* const> names);

  DriverLibrary(DriverLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(other.name_) {}
  DriverLibrary& operator=(DriverLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~DriverLibrary();

  // Which of the names it was.
  std::string_view name() const { return name_; }

 private:
  DriverLibrary(void* handle, const char* name) : handle_(handle), name_(name) {}

  void* handle_;
  const char* name_;
};

}  // namespace ashlar
