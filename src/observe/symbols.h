// SPDX-License-Identifier: Apache-2.0
//
// Symbolizes return addresses: function, file and line. Uses libdw's debug information if the
// library is installed, otherwise the dynamic linker's symbols. Slow; only for output.
#pragma once

#include <cstdint>
#include <memory>

#include "ashlar/snapshot.h"

namespace ashlar {

// Not thread safe. Keep one object for many addresses, because it caches the debug information.
class Symbolizer {
 public:
  Symbolizer();
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Never fails: falls back to object and offset, or to the bare address.
  Frame describe(uint64_t return_address) const;

 private:
  class DebugInfo;
  std::unique_ptr<DebugInfo> debug_;  // null without libdw
};

}  // namespace ashlar
