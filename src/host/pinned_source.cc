// SPDX-License-Identifier: Apache-2.0
//
// Allocates, registers and releases pinned memory. Several threads may touch the pages of large
// allocations.
#include "host/pinned_source.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/align.h"
#include "base/check.h"
#include "base/host_memory.h"
#include "base/system_info.h"
#include "base/text.h"
#include "base/units.h"
#include "device/relaxed_capture.h"
#include "host/pinned_size_policy.h"

namespace ashlar {
namespace {

// Writes to each page, so that the kernel backs it with memory. The pointer is volatile, so that
// the compiler keeps the stores, which nothing reads.
void touch(std::byte* begin, std::byte* end) {
  for (volatile std::byte* at = begin; at < end; at += PinnedSizePolicy::kPageBytes)
    *at = std::byte{0};
}

// Touches all pages on up to `thread_count` threads, but on at most one thread per MiB: starting a
// thread for less memory costs more than the page faults.
void touch_on_threads(std::byte* begin, size_t bytes, size_t thread_count) {
  const size_t parts = std::clamp<size_t>(bytes / kMiB, 1, std::max<size_t>(thread_count, 1));
  const size_t part_bytes = align_up(bytes / parts, PinnedSizePolicy::kPageBytes);
  const auto touch_part = [=](size_t part) {
    const size_t from = std::min(part * part_bytes, bytes);
    const size_t to = part + 1 == parts ? bytes : std::min(from + part_bytes, bytes);
    touch(begin + from, begin + to);
  };
  std::vector<std::thread> threads;
  threads.reserve(parts - 1);
  size_t started = 0;
  try {
    for (; started + 1 < parts; ++started) threads.emplace_back(touch_part, started);
  } catch (const std::system_error&) {
    // No more threads can be started, so this thread touches the remaining parts.
  } catch (const std::bad_alloc&) {
    // There is no memory for another thread, so this thread touches the remaining parts.
  }
  for (size_t part = started; part < parts; ++part) touch_part(part);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

PinnedSource::~PinnedSource() {
  PinnedMemory segment;
  {
    MutexLock lock(mutex_);
    segment = reserve_;
  }
  if (segment.begin == nullptr || release(segment).ok()) return;
  (void)release(segment).ok();
}

Status PinnedSource::reserve() {
  if (options_.reserve_segment_bytes == 0) return {};
  if (options_.reserve_segment_bytes >= PinnedSizePolicy::kRequestLimitBytes) {
    return Status::out_of_memory(text("a reserve segment of ", options_.reserve_segment_bytes,
                                      " B of pinned memory: no host has an exabyte"));
  }
  Result<PinnedMemory> segment =
      obtain_fresh(align_up(options_.reserve_segment_bytes, PinnedSizePolicy::kPageBytes));
  if (!segment.ok()) return segment.status();
  MutexLock lock(mutex_);
  ASHLAR_CHECK(reserve_.begin == nullptr);
  reserve_ = *segment;
  return {};
}

Result<PinnedMemory> PinnedSource::obtain(size_t bytes) {
  if (std::optional<PinnedMemory> reserved = take_reserved(bytes)) return *reserved;
  return obtain_fresh(bytes);
}

std::optional<PinnedMemory> PinnedSource::take_reserved(size_t bytes) {
  const size_t taken_bytes = align_up(bytes, PinnedSizePolicy::kPageBytes);
  MutexLock lock(mutex_);
  if (taken_bytes > reserve_.bytes - reserve_used_bytes_) return std::nullopt;
  std::byte* begin = reserve_.begin + reserve_used_bytes_;
  reserve_used_bytes_ += taken_bytes;
  return PinnedMemory{begin, bytes, PinnedOrigin::kReserved};
}

Result<PinnedMemory> PinnedSource::obtain_fresh(size_t bytes) {
  if (options_.use_host_register) return obtain_registered(bytes);
  const RelaxedCapture relaxed(device_);
  Result<void*> memory = device_.allocate_host(bytes);
  if (!memory.ok()) return memory.status();
  return PinnedMemory{static_cast<std::byte*>(*memory), bytes, PinnedOrigin::kAllocated};
}

// Allocates whole host pages, which may be larger than 4 KiB, because registered ranges must not
// share a page.
Result<PinnedMemory> PinnedSource::obtain_registered(size_t bytes) {
  const size_t page_bytes = host_page_bytes();
  const size_t padded_bytes = align_up(bytes, page_bytes);
  void* memory = std::aligned_alloc(page_bytes, padded_bytes);
  if (memory == nullptr) {
    return Status::out_of_memory(text("the host has no ", padded_bytes, " B to be registered"));
  }
  ScopeGuard free_memory([&] { std::free(memory); });
  auto* begin = static_cast<std::byte*>(memory);
  touch_on_threads(begin, padded_bytes, options_.register_thread_count);
  const RelaxedCapture relaxed(device_);
  if (Status registered = device_.register_host(memory, padded_bytes); !registered.ok()) {
    return registered;
  }
  free_memory.dismiss();
  return PinnedMemory{begin, bytes, PinnedOrigin::kRegistered};
}

Status PinnedSource::release(const PinnedMemory& memory) {
  ASHLAR_CHECK(memory.origin != PinnedOrigin::kReserved);
  const RelaxedCapture relaxed(device_);
  if (memory.origin == PinnedOrigin::kAllocated) return device_.free_host(memory.begin);
  if (Status unpinned = device_.unregister_host(memory.begin); !unpinned.ok()) return unpinned;
  std::free(memory.begin);
  return {};
}

size_t PinnedSource::reserve_used_bytes() const {
  MutexLock lock(mutex_);
  return reserve_used_bytes_;
}

size_t PinnedSource::reserve_bytes() const {
  MutexLock lock(mutex_);
  return reserve_.bytes;
}

}  // namespace ashlar
