// SPDX-License-Identifier: Apache-2.0
//
// What tells the threads that live at the same time apart, in one instruction. Asking for a
// thread_local is a call in a shared object, which an allocation would feel.
#pragma once

#include <cstdint>

namespace ashlar {

// Never 0. A thread that comes later may have that of one that has ended.
[[gnu::always_inline]] inline uintptr_t thread_mark() {
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
  uintptr_t mark = 0;
  asm("movq %%fs:0, %0" : "=r"(mark));
  return mark;
#elif defined(__aarch64__) && defined(__linux__)
  uintptr_t mark = 0;
  asm("mrs %0, tpidr_el0" : "=r"(mark));
  return mark;
#else
  static constinit thread_local char own = 0;
  return reinterpret_cast<uintptr_t>(&own);
#endif
}

}  // namespace ashlar
