// SPDX-License-Identifier: Apache-2.0
//
// Looks up the control table in a loaded stand-in driver.
#include "standin/control.h"

#include <dlfcn.h>

#include <stdexcept>

namespace ashlar::standin {

const ControlTable& control_of(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  using GetTable = const ControlTable* (*)();
  const auto get_table = reinterpret_cast<GetTable>(dlsym(handle, "ashlar_standin_control"));
  if (get_table == nullptr) throw std::runtime_error(library + " is not a stand-in driver");
  return *get_table();
}

}  // namespace ashlar::standin
