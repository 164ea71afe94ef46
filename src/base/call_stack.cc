// SPDX-License-Identifier: Apache-2.0
//
// Uses the C++ runtime's unwinder, which needs no frame pointers.
#include "base/call_stack.h"

#include <unwind.h>

#include <algorithm>

namespace ashlar {
namespace {

struct StackWalk {
  std::span<uint64_t> addresses;
  size_t count;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* user) {
  StackWalk& walk = *static_cast<StackWalk*>(user);
  const uint64_t address = _Unwind_GetIP(context);
  if (address == 0 || walk.count == walk.addresses.size()) return _URC_END_OF_STACK;
  walk.addresses[walk.count++] = address;
  return _URC_NO_REASON;
}

}  // namespace

size_t capture_call_stack(std::span<uint64_t> addresses, const void* first) {
  StackWalk walk{addresses, 0};
  _Unwind_Backtrace(visit, &walk);
  const auto begin = addresses.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(walk.count);
  const auto found = std::find(begin, end, reinterpret_cast<uint64_t>(first));
  if (found == end) return walk.count;
  return static_cast<size_t>(std::move(found, end, begin) - begin);
}

}  // namespace ashlar
