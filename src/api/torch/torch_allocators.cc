// SPDX-License-Identifier: Apache-2.0
//
// Creates the allocators behind PyTorch's device numbers.
#include "api/torch/torch_allocators.h"

#include <memory>

#include "api/process_devices.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "config/environment.h"

namespace ashlar::torch {

TorchAllocators& TorchAllocators::instance() {
  static TorchAllocators* const allocators = std::make_unique<TorchAllocators>().release();
  return *allocators;
}

Status TorchAllocators::configure(std::optional<std::string> backend,
                                  std::optional<std::string> options) {
  MutexLock lock(mutex_);
  if (is_used_) {
    return Status::invalid_argument(
        "memory is already allocated: configure before the first use of PyTorch");
  }
  backend_ = std::move(backend);
  options_ = std::move(options);
  return {};
}

ashlar_allocator& TorchAllocators::make(int device) {
  if (device < 0 || static_cast<size_t>(device) >= kMaxDevices) {
    unwrap(Status::invalid_argument(
        text("device ", device, " (expected 0 to ", kMaxDevices - 1, ")")));
  }
  const auto index = static_cast<size_t>(device);
  MutexLock lock(mutex_);
  ashlar_allocator* existing = allocators_[index].load(std::memory_order_acquire);
  if (existing != nullptr) return *existing;
  const std::string backend =
      backend_ ? *backend_ : unwrap(torch_backend_from(Environment::of_process()));
  Device* found = unwrap(process_device(backend, index));
  const AllocatorOptions options = options_ ? parse_options(*options_) : options_from_environment();
  auto made = std::make_unique<ashlar_allocator>(*found, options);
  // PyTorch numbers its own pools from 1 in both parts of the id.
  AllocatorAccess::start_pool_ids_above(made->allocator.pools(), kLastTorchPoolId);
  is_used_ = true;
  existing = made.release();
  allocators_[index].store(existing, std::memory_order_release);
  const size_t count = count_.load(std::memory_order_relaxed);
  created_[count] = existing;
  count_.store(count + 1, std::memory_order_release);
  return *existing;
}

ashlar_allocator* TorchAllocators::owner_of(const void* memory) const {
  const Found found = find(memory);
  return found.block != nullptr && found.block->is_allocated() ? found.allocator : nullptr;
}

}  // namespace ashlar::torch
