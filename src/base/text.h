// SPDX-License-Identifier: Apache-2.0
//
// Building messages: text(a, b, c) puts its arguments one after the other.
#pragma once

#include <locale>
#include <sstream>
#include <string>

#include "ashlar/types.h"

namespace ashlar {

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());      // numbers read the same whatever the program's locale
  out.exceptions(std::ios_base::badbit);  // without memory it throws, instead of leaving parts out
  (out << ... << parts);
  return std::move(out).str();
}

std::ostream& operator<<(std::ostream& out, DeviceAddress address);      // 0x7f0000200000
std::ostream& operator<<(std::ostream& out, PoolId pool);                // {1, 0}
std::ostream& operator<<(std::ostream& out, const AddressRange& range);  // 0x… + 2097152 B

template <typename Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.value();
}

}  // namespace ashlar
