// SPDX-License-Identifier: Apache-2.0
//
// Wraps dlopen(3).
#include "device/driver_library.h"

#include <dlfcn.h>

#include <string>

namespace ashlar {
namespace {

// Returns whether the loader's error message `reason` says that the file `name` does not exist.
// `open` prefers the message of a file that exists but cannot be loaded (a missing dependency, the
// wrong architecture), because that message is more useful.
bool is_missing_file(std::string_view reason, std::string_view name) {
  return reason.starts_with(name) && reason.ends_with("No such file or directory");
}

}  // namespace

Result<DriverLibrary> DriverLibrary::open(std::span<const char* const> names) {
  std::string load_reason;
  std::string missing_reason;
  for (const char* name : names) {
    void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return DriverLibrary(handle, name);
    const char* error = dlerror();
    const std::string reason = error != nullptr ? error : std::string(name) + ": not loaded";
    std::string& kept = is_missing_file(reason, name) ? missing_reason : load_reason;
    if (kept.empty()) kept = reason;
  }
  return Status::unsupported(load_reason.empty() ? missing_reason : load_reason);
}

DriverLibrary::~DriverLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DriverLibrary::find(const char* function) const { return dlsym(handle_, function); }

}  // namespace ashlar
