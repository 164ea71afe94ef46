// SPDX-License-Identifier: Apache-2.0
//
// Replaces every form of operator new and delete.
#include "sweep/host_allocation_faults.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace ashlar::sweep {
namespace {

// The state of the calling thread. It is constant-initialized, because operator new runs before
// constructors.
struct FaultState {
  uint64_t left = 0;  // allocations up to and including the one that fails; 0: none fails
  uint32_t exemption_count = 0;
  bool has_failed = false;
};
constinit thread_local FaultState fault_state;

// The state of OtherThreadsFault: the thread whose allocations succeed while those of all others
// fail (null: none fails), and the number of failures. Relaxed order suffices, because the values
// guard no other data.
std::atomic<const FaultState*> spared_thread{nullptr};
std::atomic<uint64_t> failures_of_others{0};

bool must_fail() noexcept {
  const FaultState* spared = spared_thread.load(std::memory_order_relaxed);
  if (spared != nullptr && spared != &fault_state) {
    failures_of_others.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  FaultState& state = fault_state;
  if (state.left == 0 || state.exemption_count != 0) return false;
  if (--state.left != 0) return false;
  state.has_failed = true;
  return true;
}

void* try_new(std::size_t bytes) noexcept {
  if (must_fail()) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}

void* try_new_aligned(std::size_t bytes, std::align_val_t alignment) noexcept {
  if (must_fail()) return nullptr;
  const auto boundary = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + boundary - 1) / boundary * boundary;
  return std::aligned_alloc(boundary, rounded == 0 ? boundary : rounded);
}

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

HostAllocationFault::HostAllocationFault(uint64_t nth) noexcept {
  fault_state.has_failed = false;
  fault_state.left = nth;
}
HostAllocationFault::~HostAllocationFault() { fault_state.left = 0; }
bool HostAllocationFault::has_failed() const noexcept { return fault_state.has_failed; }

HostAllocationExemption::HostAllocationExemption() noexcept { ++fault_state.exemption_count; }
HostAllocationExemption::~HostAllocationExemption() { --fault_state.exemption_count; }

OtherThreadsFault::OtherThreadsFault() noexcept {
  failures_of_others.store(0, std::memory_order_relaxed);
  spared_thread.store(&fault_state, std::memory_order_relaxed);
}
OtherThreadsFault::~OtherThreadsFault() { spared_thread.store(nullptr, std::memory_order_relaxed); }
uint64_t OtherThreadsFault::failure_count() const noexcept {
  return failures_of_others.load(std::memory_order_relaxed);
}

}  // namespace ashlar::sweep

// NOLINTBEGIN(cppcoreguidelines-no-malloc)
void* operator new(std::size_t bytes) {
  return ashlar::sweep::checked(ashlar::sweep::try_new(bytes));
}
void* operator new[](std::size_t bytes) {
  return ashlar::sweep::checked(ashlar::sweep::try_new(bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return ashlar::sweep::checked(ashlar::sweep::try_new_aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return ashlar::sweep::checked(ashlar::sweep::try_new_aligned(bytes, alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return ashlar::sweep::try_new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return ashlar::sweep::try_new(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return ashlar::sweep::try_new_aligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return ashlar::sweep::try_new_aligned(bytes, alignment);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc)
