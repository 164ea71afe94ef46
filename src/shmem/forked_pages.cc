// SPDX-License-Identifier: Apache-2.0
//
// Copies the shared pages before the fork, because the parent may change them after the fork.
// Reading a page of shared memory that was never written would allocate the page, so only the parts
// of the file that contain data are copied.
#include "shmem/forked_pages.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>

namespace ashlar::shmem {
namespace {

struct SharedRange {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  // The file of the shared memory. The descriptor is invalid if the program has closed it.
  int descriptor = -1;
  off_t file_offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

std::vector<SharedRange>& shared_ranges() {
  // Never destroyed: exit handlers may fork.
  static auto* const ranges = std::make_unique<std::vector<SharedRange>>().release();
  return *ranges;
}

// The fork in progress on this thread.
struct ForkInProgress {
  bool is_handled = false;    // whether there were shared ranges when the fork began
  std::byte* copy = nullptr;  // of all ranges; null if there was no memory
  sigset_t signals{};         // the signals that were blocked before the fork
};
thread_local ForkInProgress fork_in_progress;

size_t total_bytes(const std::vector<SharedRange>& ranges) {
  size_t total = 0;
  for (const SharedRange& each : ranges) total += each.bytes;
  return total;
}

bool refers_to(int descriptor, dev_t device, ino_t inode) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}
bool has_open_file(const SharedRange& range) {
  return range.descriptor >= 0 && refers_to(range.descriptor, range.device, range.inode);
}

// Duplicates an open descriptor of the file, normally that of the heap's back end. Returns -1 if
// this process has no descriptor of the file.
int duplicate_descriptor(dev_t device, ino_t inode) {
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = each.path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (refers_to(descriptor, device, inode)) return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  }
  return -1;
}

// Copies the pages of the file that contain data. Returns false if the file system cannot locate
// them.
bool copy_data(const SharedRange& range, std::byte* to) {
  const off_t end = range.file_offset + static_cast<off_t>(range.bytes);
  off_t hole = range.file_offset;
  while (hole < end) {
    const off_t data = ::lseek(range.descriptor, hole, SEEK_DATA);
    if (data < 0) return errno == ENXIO;  // the file ends with a hole
    if (data >= end) return true;
    hole = std::min(::lseek(range.descriptor, data, SEEK_HOLE), end);
    if (hole <= data) return false;
    const off_t offset = data - range.file_offset;
    copy_nonzero_words(range.begin + offset, static_cast<size_t>(hole - data), to + offset);
  }
  return true;
}

// Blocks signals until end_of_fork: a signal handler must neither change variables after they have
// been copied, nor run in the child before the child has its own pages.
void before_fork() {
  const std::vector<SharedRange>& ranges = shared_ranges();
  if (ranges.empty()) return;
  fork_in_progress = {.is_handled = true, .copy = nullptr, .signals = block_signals()};
  void* copy = ::mmap(nullptr, total_bytes(ranges), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (copy == MAP_FAILED) return;
  auto* to = static_cast<std::byte*>(copy);
  fork_in_progress.copy = to;
  for (const SharedRange& each : ranges) {
    if (!has_open_file(each) || !copy_data(each, to))
      copy_nonzero_words(each.begin, each.bytes, to);
    to += each.bytes;
  }
}

void end_of_fork() {
  const sigset_t signals = fork_in_progress.signals;
  fork_in_progress = {};
  restore_signals(signals);
}

void after_fork_in_parent() {
  if (!fork_in_progress.is_handled) return;
  if (fork_in_progress.copy != nullptr) {
    ::munmap(fork_in_progress.copy, total_bytes(shared_ranges()));
  }
  end_of_fork();
}

void after_fork_in_child() {
  if (!fork_in_progress.is_handled) return;
  std::byte* from = fork_in_progress.copy;
  for (const SharedRange& each : shared_ranges()) {
    if (from == nullptr || !move_pages(from, each.bytes, each.begin)) {
      end_process("shmem: fork: no memory for a copy of the program's static data\n");
    }
    from += each.bytes;
    if (has_open_file(each)) ::close(each.descriptor);
  }
  shared_ranges().clear();
  end_of_fork();
}

// glibc runs the handlers before a fork in reverse order of registration, and the handlers after
// the fork in order. Handlers that the program registers later therefore run before the copy, and
// after the child has private pages.
const bool kHandlersAreRegistered =
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;

std::vector<SharedRange>::iterator find_range(const std::byte* begin, size_t bytes) {
  return std::ranges::find_if(shared_ranges(), [&](const SharedRange& each) {
    return each.begin == begin && each.bytes == bytes;
  });
}

}  // namespace

bool has_fork_handlers() { return kHandlersAreRegistered; }

void copy_in_forked_children(std::byte* begin, size_t bytes, const std::byte* source,
                             const std::vector<Mapping>& mappings) {
  SharedRange range;
  range.begin = begin;
  range.bytes = bytes;
  const auto address = reinterpret_cast<uintptr_t>(source);
  for (const Mapping& each : mappings) {
    if (address < each.begin || address >= each.end) continue;
    range.file_offset = static_cast<off_t>(each.file_offset + (address - each.begin));
    range.device = each.device;
    range.inode = each.inode;
    range.descriptor = duplicate_descriptor(each.device, each.inode);
  }
  const auto before = find_range(begin, bytes);
  if (before == shared_ranges().end()) {
    shared_ranges().push_back(range);
    return;
  }
  if (has_open_file(*before)) ::close(before->descriptor);
  *before = range;
}

bool is_copied_in_forked_children(const std::byte* begin, size_t bytes) {
  return find_range(begin, bytes) != shared_ranges().end();
}

}  // namespace ashlar::shmem
