// SPDX-License-Identifier: Apache-2.0
//
// Creates the memory with memfd_create, and starts the threads and processes.
#include "unit/symm/signals/ranks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "base/align.h"
#include "base/check.h"

namespace ashlar::symm::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};

}  // namespace

RankMemory::RankMemory(int world_size, size_t bytes)
    : bytes_(bytes),
      mapped_bytes_(static_cast<size_t>(world_size) *
                    (2 * kGuardBytes + align_up(bytes, kGuardBytes))) {
  const int fd = ::memfd_create("ranks", MFD_CLOEXEC);
  ASHLAR_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(mapped_bytes_)) == 0);
  void* mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASHLAR_CHECK(mapping != MAP_FAILED);
  ::close(fd);
  mapping_ = static_cast<std::byte*>(mapping);
  std::memset(mapping_, static_cast<int>(kGuard), mapped_bytes_);
  const size_t piece_bytes = mapped_bytes_ / static_cast<size_t>(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    bases_.push_back(mapping_ + static_cast<size_t>(rank) * piece_bytes + kGuardBytes);
    std::memset(bases_.back(), 0, bytes_);
  }
}

RankMemory::~RankMemory() { ::munmap(mapping_, mapped_bytes_); }

bool RankMemory::guards_are_intact() const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  const std::byte* next = mapping_;
  for (const std::byte* base : bases_) {
    if (!std::all_of(next, base, is_guard)) return false;
    next = base + bytes_;
  }
  return std::all_of(next, static_cast<const std::byte*>(mapping_ + mapped_bytes_), is_guard);
}

RankPads::RankPads(int world_size, int channel_count)
    : channel_count_(channel_count), memory_(world_size, *pad_bytes(world_size, channel_count)) {}

SignalPads RankPads::pads_of(int rank) const {
  return *SignalPads::make(rank, channel_count_, memory_.bases());
}

void run_as_threads(int world_size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

void run_as_processes(int world_size, const std::function<void(int rank)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(60);
      body(rank);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[static_cast<size_t>(rank)], &status, 0),
              children[static_cast<size_t>(rank)]);
    EXPECT_EQ(status, 0) << "rank " << rank << " failed";
  }
}

}  // namespace ashlar::symm::testing
