// SPDX-License-Identifier: Apache-2.0
//
// Implements the trap with mprotect and a SIGSEGV handler.
#include "mp/harness/access_trap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ashlar::symm {
namespace {

struct AccessTrap {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  int signal = 0;
};
// Set before the handler is installed, and constant afterwards.
AccessTrap trap;

void handle_fault(int, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  if (at < trap.begin || at >= trap.begin + trap.bytes) ::_exit(3);  // a genuine fault
  if (::mprotect(trap.begin, trap.bytes, PROT_READ | PROT_WRITE) != 0) ::_exit(4);
  ::kill(::getpid(), trap.signal);
}

}  // namespace

void set_access_trap(std::span<std::byte> memory, Access access, int signal) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory.data() + memory.size());
  trap = {reinterpret_cast<std::byte*>(begin), (end - begin + page - 1) / page * page, signal};
  struct sigaction action {};
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) ::_exit(5);
  const int protection = access == Access::kRead ? PROT_NONE : PROT_READ;
  if (::mprotect(trap.begin, trap.bytes, protection) != 0) ::_exit(6);
}

}  // namespace ashlar::symm
