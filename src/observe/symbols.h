// SPDX-License-Identifier: Apache-2.0
//
// Symbolizes return addresses as function, file and line. Reads debug information with libdw if
// that library is installed; if libdw finds no name, uses the dynamic linker's symbols. Symbolizing
// is slow and is done only for output.
#pragma once

#include <cstdint>
#include <memory>

#include "ashlar/snapshot.h"

namespace ashlar {

// Not thread safe. Use one object for many addresses, because the object caches the debug
// information.
class Symbolizer {
 public:
  Symbolizer();
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Returns the frame of the call before `return_address`. Without symbols, the name is the offset
  // in the shared object, or the address.
  Frame describe(uint64_t return_address) const;

 private:
  class DebugInfo;
  std::unique_ptr<DebugInfo> debug_;  // null if libdw cannot be used
};

}  // namespace ashlar
