// SPDX-License-Identifier: Apache-2.0
//
// The C functions through which python/ashlar/_native.py installs the allocator.
#include <cstring>
#include <exception>

#include "api/torch/native/native_allocator.h"

using ashlar::torch::Bridge;

extern "C" {

// Returns the version of the bridge that this library was compiled for.
__attribute__((visibility("default"))) uint32_t ashlar_native_bridge_version() noexcept {
  return ashlar::torch::kBridgeVersion;
}

// Returns the version of PyTorch that this library was compiled for: "2.11.0".
__attribute__((visibility("default"))) const char* ashlar_native_torch_version() noexcept {
  return TORCH_VERSION;
}

// Installs the allocator. `bridge` is the result of ashlar_torch_bridge. Returns 0, or -1 and
// writes the reason to `message`.
__attribute__((visibility("default"))) int ashlar_native_install(Bridge* bridge, char* message,
                                                                 size_t message_bytes) noexcept {
  try {
    ashlar::torch::native::install(*bridge);
    return 0;
  } catch (const std::exception& failure) {
    if (message_bytes != 0) {
      std::strncpy(message, failure.what(), message_bytes - 1);
      message[message_bytes - 1] = '\0';
    }
    return -1;
  }
}

}  // extern "C"
