// SPDX-License-Identifier: Apache-2.0
//
// Finds the segments in the program headers of the executable, and moves them to shared memory.
#include "shmem/program_data.h"

#include <link.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/align.h"
#include "shmem/forked_pages.h"
#include "symm/core/hash.h"

namespace ashlar::shmem {
namespace {

// Below the default timeout of the rendezvous, in which the other PEs wait.
constexpr std::chrono::seconds kThreadStartTimeout{45};

// Blocks signals for a scope. Otherwise a value that a signal handler writes during a copy could be
// lost.
class BlockedSignals {
 public:
  BlockedSignals() = default;
  ~BlockedSignals() { restore_signals(before_); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  const sigset_t before_ = block_signals();
};

// Returns the threads of this process, as folders of the proc file system; empty if it is not
// mounted.
std::vector<std::filesystem::path> thread_folders() {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task", error)) {
    folders.push_back(each.path());
  }
  return folders;
}

// Returns whether the thread sleeps. Its state is the letter after the parenthesized name.
bool is_sleeping(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end, 3) == ") S";
}

// Waits until all other threads sleep. A thread that has just been created may still run code of a
// sanitizer's runtime, or of an allocator that is part of the executable. Returns false on timeout.
bool wait_for_thread_starts() {
  const auto own = std::to_string(::gettid());
  const auto end = std::chrono::steady_clock::now() + kThreadStartTimeout;
  for (;;) {
    bool all_sleep = true;
    for (const auto& each : thread_folders()) {
      all_sleep = all_sleep && (each.filename() == own || is_sleeping(each));
    }
    if (all_sleep) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Whether ThreadSanitizer's runtime is part of the executable. Its thread could write during the
// copy.
constexpr bool has_thread_sanitizer() {
#if defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
  return __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

// Address ranges of the executable, from its program headers. Ends are exclusive.
struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
struct Executable {
  std::vector<Range> writable;
  Range read_only_after_relocation;
  bool has_dynamic_linker = false;
  uint64_t layout_hash = symm::kHashSeed;
};

// Returns whether the memory that the program header `part` describes is loaded and readable.
bool is_loaded(const dl_phdr_info& info, const ElfW(Phdr) & part) {
  for (int at = 0; at < info.dlpi_phnum; ++at) {
    const auto& load = info.dlpi_phdr[at];
    if (load.p_type != PT_LOAD || (load.p_flags & PF_R) == 0 || part.p_vaddr < load.p_vaddr) {
      continue;
    }
    const uint64_t offset = part.p_vaddr - load.p_vaddr;
    if (offset <= load.p_memsz && part.p_memsz <= load.p_memsz - offset) return true;
  }
  return false;
}

Executable read_program_headers() {
  Executable executable;
  const auto collect = [](dl_phdr_info* info, size_t, void* result) {
    auto& found = *static_cast<Executable*>(result);
    const size_t page = page_bytes();
    for (int at = 0; at < info->dlpi_phnum; ++at) {
      const auto& header = info->dlpi_phdr[at];
      const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
      const uintptr_t end = begin + header.p_memsz;
      for (const uint64_t number : {header.p_vaddr, header.p_filesz, header.p_memsz}) {
        found.layout_hash = symm::hash_append(found.layout_hash, number);
      }
      if (header.p_type == PT_NOTE && is_loaded(*info, header)) {
        const std::string_view notes(reinterpret_cast<const char*>(begin), header.p_memsz);
        found.layout_hash = symm::hash_append(found.layout_hash, notes);
      }
      if (header.p_type == PT_INTERP) found.has_dynamic_linker = true;
      if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) {
        found.writable.push_back({align_down(begin, page), align_up(end, page)});
      }
      // The dynamic linker rounds down both ends.
      if (header.p_type == PT_GNU_RELRO) {
        found.read_only_after_relocation = {align_down(begin, page), align_down(end, page)};
      }
    }
    return 1;  // the first object is the executable
  };
  ::dl_iterate_phdr(collect, &executable);
  return executable;
}

}  // namespace

std::string_view reason(ProgramDataState state) {
  switch (state) {
    case ProgramDataState::kSymmetric: return "";
    case ProgramDataState::kOtherThreads:
      return "the program had started threads before it called shmem_init";
    case ProgramDataState::kBusyThreads:
      return "a thread of the library was still busy after 45 seconds";
    case ProgramDataState::kStaticallyLinked: return "the program is linked statically";
    case ProgramDataState::kNoProcFileSystem: return "the proc file system is not mounted";
    case ProgramDataState::kUnusualProtection:
      return "some of their pages are executable, or the program has protected or replaced them";
    case ProgramDataState::kMappingRefused:
      return "the system does not map shared memory twice (mremap), or has no memory for it";
  }
  return "the program reports an unknown state";
}

ProgramData::ProgramData() {
  const Executable executable = read_program_headers();
  layout_hash_ = executable.layout_hash;
  const Range relro = executable.read_only_after_relocation;
  const auto add = [&](uintptr_t begin, uintptr_t end) {
    if (begin >= end) return;
    segments_.push_back({reinterpret_cast<std::byte*>(begin), end - begin});
    bytes_ += end - begin;
  };
  for (const Range& each : executable.writable) {
    if (relro.end <= each.begin || relro.begin >= each.end) {
      add(each.begin, each.end);
    } else {
      add(each.begin, relro.begin);
      add(relro.end, each.end);
    }
  }
  const size_t thread_count = thread_folders().size();
  if (!executable.has_dynamic_linker) {
    state_ = ProgramDataState::kStaticallyLinked;
  } else if (thread_count == 0) {
    state_ = ProgramDataState::kNoProcFileSystem;
  } else if (has_thread_sanitizer() || thread_count != 1) {
    state_ = ProgramDataState::kOtherThreads;
  }
}

void ProgramData::move_to(std::byte* shared) {
  if (state_ == ProgramDataState::kSymmetric) state_ = try_move_to(shared);
}

// Memory may be allocated before a copy and after the mapping that replaces the pages, but not in
// between, because the allocator's own variables may be in the segments.
ProgramDataState ProgramData::try_move_to(std::byte* shared) const {
  if (!wait_for_thread_starts()) return ProgramDataState::kBusyThreads;
  if (!has_fork_handlers()) return ProgramDataState::kMappingRefused;
  const std::vector<Mapping> mappings = read_mappings();
  if (mappings.empty()) return ProgramDataState::kNoProcFileSystem;
  for (const Segment& each : segments_) {
    if (!has_usual_protection(each, mappings)) return ProgramDataState::kUnusualProtection;
  }
  for (const Segment& each : segments_) {
    const BlockedSignals blocked;
    copy_nonzero_words(each.begin, each.bytes, shared);
    if (!alias_pages(shared, each.bytes, each.begin)) return ProgramDataState::kMappingRefused;
    copy_in_forked_children(each.begin, each.bytes, shared, mappings);
    shared += each.bytes;
  }
  return ProgramDataState::kSymmetric;
}

// Pages are already shared if an earlier runtime of this process moved them.
bool ProgramData::has_usual_protection(const Segment& segment,
                                       const std::vector<Mapping>& mappings) {
  const bool is_shared = is_copied_in_forked_children(segment.begin, segment.bytes);
  auto at = reinterpret_cast<uintptr_t>(segment.begin);
  const uintptr_t end = at + segment.bytes;
  for (const Mapping& each : mappings) {
    if (each.end <= at) continue;
    if (each.begin > at || each.permissions != (is_shared ? "rw-s" : "rw-p")) return false;
    at = each.end;
    if (at >= end) return true;
  }
  return false;
}

size_t ProgramData::offset_of(const void* address, size_t bytes) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  size_t offset = 0;
  for (const Segment& each : segments_) {
    const auto begin = reinterpret_cast<uintptr_t>(each.begin);
    if (start >= begin && start - begin < each.bytes && bytes <= each.bytes - (start - begin)) {
      return offset + (start - begin);
    }
    offset += each.bytes;
  }
  return bytes_;
}

}  // namespace ashlar::shmem
