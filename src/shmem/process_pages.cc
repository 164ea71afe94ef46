// SPDX-License-Identifier: Apache-2.0
//
// Pages are mapped again with mremap(2): with an old size of 0, it maps the pages of a shared
// mapping a second time. The system call is made directly, because UCX intercepts the C function
// and would drop cached registrations of unrelated memory.
#include "shmem/process_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace ashlar::shmem {
namespace {

void* mremap_directly(const void* from, size_t old_bytes, size_t new_bytes, int flags, void* to) {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, from, old_bytes, new_bytes, flags, to));
}

// Returns whether all pages are mapped. Writes nothing: Linux ignores MS_ASYNC.
bool are_mapped(std::byte* pages, size_t bytes) { return ::msync(pages, bytes, MS_ASYNC) == 0; }

}  // namespace

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

std::vector<Mapping> read_mappings() {
  std::vector<Mapping> mappings;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Mapping mapping;
    char separator = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    fields >> std::hex >> mapping.begin >> separator >> mapping.end >> mapping.permissions >>
        mapping.file_offset >> major_number >> separator >> minor_number >> std::dec >>
        mapping.inode;
    if (fields.fail()) return {};
    mapping.device = makedev(major_number, minor_number);
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

bool alias_pages(const std::byte* source, size_t bytes, std::byte* target) {
  void* alias = mremap_directly(source, 0, bytes, MREMAP_MAYMOVE, nullptr);
  if (alias == MAP_FAILED) return false;
  if (move_pages(static_cast<std::byte*>(alias), bytes, target)) return true;
  ::munmap(alias, bytes);
  return false;
}

// A refusal normally leaves `target` mapped, because the kernel checks the limit on mappings before
// it unmaps `target`.
bool move_pages(std::byte* from, size_t bytes, std::byte* target) {
  if (mremap_directly(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target) {
    return true;
  }
  if (!are_mapped(target, bytes)) end_process("shmem: mremap failed and unmapped memory\n");
  return false;
}

// Sanitizers must not check the accesses, because the pages contain their redzones. `volatile`
// keeps the compiler from turning the loop into a call of memcpy, which sanitizers intercept.
__attribute__((no_sanitize("address"))) void copy_nonzero_words(const std::byte* from, size_t bytes,
                                                                std::byte* to) {
  const auto* source = reinterpret_cast<const volatile uint64_t*>(from);
  auto* target = reinterpret_cast<volatile uint64_t*>(to);
  for (size_t at = 0; at < bytes / sizeof(uint64_t); ++at) {
    const uint64_t word = source[at];
    if (word != 0) target[at] = word;
  }
}

[[noreturn]] void end_process(std::string_view message) {
  const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  static_cast<void>(written);
  ::_exit(1);
}

sigset_t block_signals() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigemptyset(&before);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

void restore_signals(const sigset_t& before) { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }

}  // namespace ashlar::shmem
