// SPDX-License-Identifier: Apache-2.0
//
// A SIGSEGV handler that reports host accesses to simulated device memory. The handler makes only
// async-signal-safe calls: it writes to standard error, then passes the signal to the previous
// handler. The handler is installed only by explain_host_access.
#include "device/sim/host_access.h"

#include <unistd.h>
#include <csignal>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "ashlar/sim.h"
#include "base/fork_guard.h"
#include "base/mutex.h"

namespace ashlar::sim {
namespace {

// A slot for one address range. A slot is free if its end is 0. `begin` is written before `end`
// (release), and the handler reads `end` first (acquire), so that the handler never pairs a new end
// with an old begin.
struct Slot {
  std::atomic<uint64_t> begin{0};
  std::atomic<uint64_t> end{0};
};

std::array<Slot, 4096> slots;
Mutex slots_mutex;
size_t used_slots ASHLAR_GUARDED_BY(slots_mutex) = 0;
size_t next_slot ASHLAR_GUARDED_BY(slots_mutex) = 0;  // start of the search for a free slot
struct sigaction previous_action;
std::atomic<bool> installed{false};

// In a forked child, the mutex may be locked by a thread of the parent. The counters may then be
// off by one, which only makes the table look full one range earlier or later.
void reset_slots_mutex() { std::construct_at(&slots_mutex); }

bool is_device_memory(uint64_t address) {
  for (const Slot& slot : slots) {
    const uint64_t end = slot.end.load(std::memory_order_acquire);
    if (address < end && address >= slot.begin.load(std::memory_order_relaxed)) return true;
  }
  return false;
}

void write_text(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  (void)!::write(STDERR_FILENO, text, length);
}

void write_address(uint64_t address) {
  char digits[19] = "0x";
  int at = 2;
  for (int shift = 60; shift >= 0; shift -= 4) {
    const char digit = "0123456789abcdef"[(address >> shift) & 15];
    if (digit != '0' || at > 2 || shift == 0) digits[at++] = digit;
  }
  digits[at] = '\0';
  write_text(digits);
}

void handle_fault(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (is_device_memory(address)) {
    write_text("ashlar sim: the host accessed device memory at ");
    write_address(address);
    write_text(": use a device copy, or sim::Machine::memory in tests\n");
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    // When the handler returns, the faulting instruction runs again and terminates the process. A
    // signal sent by kill() does not occur again, so it is raised here.
    ::sigaction(number, &previous_action, nullptr);
    if (info->si_code <= 0) ::raise(number);
  }
}

}  // namespace

size_t watch_host_access(AddressRange range) {
  static const bool resets_after_fork = [] {
    run_in_forked_children(reset_slots_mutex);
    return true;
  }();
  static_cast<void>(resets_after_fork);
  MutexLock lock(slots_mutex);
  if (used_slots == slots.size()) return kNoWatch;
  for (size_t tried = 0; tried < slots.size(); ++tried) {
    const size_t index = next_slot++ % slots.size();
    Slot& slot = slots[index];
    if (slot.end.load(std::memory_order_relaxed) != 0) continue;
    slot.begin.store(range.begin.value(), std::memory_order_relaxed);
    slot.end.store(range.end().value(), std::memory_order_release);
    ++used_slots;
    return index;
  }
  return kNoWatch;
}

void unwatch_host_access(size_t watch) {
  if (watch == kNoWatch) return;
  MutexLock lock(slots_mutex);
  slots[watch].end.store(0, std::memory_order_release);
  --used_slots;
}

void explain_host_access() {
  if (installed.exchange(true)) return;
  struct sigaction action {};
  action.sa_sigaction = handle_fault;
  // The handler uses the alternate stack, if there is one, because the fault may be a stack
  // overflow.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace ashlar::sim
