// SPDX-License-Identifier: Apache-2.0
//
// Names for return addresses: function, file and line. With libdw where the machine has it, which
// reads the debug information; otherwise what the dynamic linker knows. Slow, and only for reading.
#pragma once

#include <cstdint>
#include <memory>

#include "ashlar/snapshot.h"

namespace ashlar {

// Not thread safe. Reading the debug information once serves many addresses: keep one while
// looking.
class Symbols {
 public:
  Symbols();
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Never fails: the least it says is the object and the offset into it, or the bare address.
  Frame describe(uint64_t return_address) const;

 private:
  class DebugInformation;
  std::unique_ptr<DebugInformation> debug_;  // null: there is no libdw
};

}  // namespace ashlar
