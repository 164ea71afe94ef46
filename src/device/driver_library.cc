// SPDX-License-Identifier: Apache-2.0
//
// dlopen(3) and its reasons.
#include "device/driver_library.h"

#include <dlfcn.h>

#include <string>

namespace ashlar {
namespace {

// A file that is not there is the usual case, and says nothing; one that is there and does not
// load (a missing dependency, the wrong architecture) is what the user wants to hear about.
bool says_only_missing(std::string_view reason, std::string_view name) {
  return reason.starts_with(name) && reason.ends_with("No such file or directory");
}

}  // namespace

Result<DriverLibrary> DriverLibrary::open(std::span<const char* const> names) {
  std::string telling_reason;
  std::string missing_reason;
  for (const char* name : names) {
    void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return DriverLibrary(handle, name);
    const char* error = dlerror();
    const std::string reason = error != nullptr ? error : std::string(name) + ": not loaded";
    std::string& kept = says_only_missing(reason, name) ? missing_reason : telling_reason;
    if (kept.empty()) kept = reason;
  }
  return Status::unsupported(telling_reason.empty() ? missing_reason : telling_reason);
}

DriverLibrary::~DriverLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DriverLibrary::find(const char* function) const { return dlsym(handle_, function); }

}  // namespace ashlar
