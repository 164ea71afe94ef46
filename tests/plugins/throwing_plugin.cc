// SPDX-License-Identifier: Apache-2.0
//
// A plug-in whose functions throw. C++ permits this, because the function types in plugin.h are not
// noexcept.
#include <cstddef>
#include <stdexcept>

#include "ashlar/c/plugin.h"

extern "C" {

int throws_in_free = 0;

void* throwing_alloc(size_t, int, void*) { throw std::runtime_error("no luck today"); }

void* plain_alloc(size_t, int, void*) { return reinterpret_cast<void*>(0x600000000000); }
void throwing_free(void*, size_t, int, void*) {
  if (throws_in_free != 0) throw 42;
}

static void throwing_begin(int, uint64_t, uint64_t, ashlar_plugin_filter, void*) {
  throw std::runtime_error("no pools today");
}

extern const ashlar_plugin_hooks throwing_hooks;
const ashlar_plugin_hooks throwing_hooks = [] {
  ashlar_plugin_hooks hooks{};
  hooks.abi_version = ASHLAR_PLUGIN_ABI_VERSION;
  hooks.struct_size = sizeof(hooks);
  hooks.begin_allocate_to_pool = throwing_begin;
  return hooks;
}();

}  // extern "C"
