// SPDX-License-Identifier: Apache-2.0
//
// Making an allocator for a device of PyTorch's.
#include "api/torch/torch_devices.h"

#include <memory>

#include "api/process.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "config/environment.h"

namespace ashlar::torch {

TorchDevices& TorchDevices::of_process() {
  static TorchDevices* const devices = std::make_unique<TorchDevices>().release();
  return *devices;
}

Status TorchDevices::configure(std::optional<std::string> backend,
                               std::optional<std::string> options) {
  MutexLock lock(mutex_);
  if (is_used_) {
    return Status::invalid_argument(
        "memory was allocated already: configure before the first use of PyTorch");
  }
  backend_ = std::move(backend);
  options_ = std::move(options);
  return {};
}

ashlar_allocator& TorchDevices::make(int device) {
  if (device < 0 || static_cast<size_t>(device) >= kMaxDevices) {
    unwrap(Status::invalid_argument(
        text("device ", device, " (expected 0 to ", kMaxDevices - 1, ")")));
  }
  const auto index = static_cast<size_t>(device);
  MutexLock lock(mutex_);
  ashlar_allocator* there = allocators_[index].load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  const std::string backend =
      backend_ ? *backend_ : unwrap(torch_backend_from(Environment::of_process()));
  Device* found = unwrap(process_device(backend, index));
  const AllocatorOptions options = options_ ? parse_options(*options_) : options_from_environment();
  auto made = std::make_unique<ashlar_allocator>(*found, options);
  is_used_ = true;
  there = made.release();
  allocators_[index].store(there, std::memory_order_release);
  return *there;
}

ashlar_allocator* TorchDevices::owner_of(const void* memory) const {
  for (const std::atomic<ashlar_allocator*>& place : allocators_) {
    ashlar_allocator* there = place.load(std::memory_order_acquire);
    if (there == nullptr) continue;
    const Block* block = there->engine.addresses().find(c_api::address_of(memory));
    if (block != nullptr && block->is_allocated()) return there;
  }
  return nullptr;
}

}  // namespace ashlar::torch
