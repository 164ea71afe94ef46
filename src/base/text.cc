// SPDX-License-Identifier: Apache-2.0
//
// Defines the output operators of Ashlar's types.
#include "base/text.h"

namespace ashlar {

std::ostream& operator<<(std::ostream& out, DeviceAddress address) {
  const std::ios_base::fmtflags flags = out.flags();
  out << "0x" << std::hex << address.value();
  out.flags(flags);
  return out;
}

std::ostream& operator<<(std::ostream& out, PoolId pool) {
  return out << '{' << pool.capture << ", " << pool.user << '}';
}

std::ostream& operator<<(std::ostream& out, const AddressRange& range) {
  return out << range.begin << " + " << range.bytes << " B";
}

}  // namespace ashlar
