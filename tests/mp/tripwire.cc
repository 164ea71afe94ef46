// SPDX-License-Identifier: Apache-2.0
//
// mprotect, and a handler of SIGSEGV, which is called by the very instruction.
#include "mp/tripwire.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ashlar::symm {
namespace {

struct Wire {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  int signal = 0;
};
// Set before the handler is, and constant afterwards.
Wire laid;

void trip(int, siginfo_t* what, void*) {
  const auto* at = static_cast<const std::byte*>(what->si_addr);
  if (at < laid.begin || at >= laid.begin + laid.bytes) ::_exit(3);  // another fault: a real one
  if (::mprotect(laid.begin, laid.bytes, PROT_READ | PROT_WRITE) != 0) ::_exit(4);
  ::kill(::getpid(), laid.signal);
}

}  // namespace

void lay_tripwire(std::span<std::byte> memory, Touch touch, int signal) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory.data() + memory.size());
  laid = {reinterpret_cast<std::byte*>(begin), (end - begin + page - 1) / page * page, signal};
  struct sigaction action {};
  action.sa_sigaction = trip;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) ::_exit(5);
  const int still_allowed = touch == Touch::kReading ? PROT_NONE : PROT_READ;
  if (::mprotect(laid.begin, laid.bytes, still_allowed) != 0) ::_exit(6);
}

}  // namespace ashlar::symm
