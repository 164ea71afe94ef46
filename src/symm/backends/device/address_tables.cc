// SPDX-License-Identifier: Apache-2.0
//
// Allocates tables from slabs and fills them.
#include "symm/backends/device/address_tables.h"

#include "base/align.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {
namespace {

// The size of a device cache line, so that no two tables share one.
constexpr uint64_t kTableAlignment = 128;

}  // namespace

AddressTables::AddressTables(Device& device, Backend& backend, size_t entry_count)
    : device_(device),
      backend_(backend),
      table_bytes_(align_up(entry_count * sizeof(std::byte*), kTableAlignment)),
      streams_(device) {}

Result<std::unique_ptr<AddressTables::Table>> AddressTables::make(
    std::span<std::byte* const> entries) {
  const Result<std::byte*> memory = acquire_memory();
  if (!memory.ok()) return memory.status();
  auto table = std::make_unique<Table>(*this, *memory);
  const DeviceAddress at(reinterpret_cast<uint64_t>(*memory));
  const Status copied = streams_.run([&](StreamId stream) {
    return device_.copy_to_device(at, entries.data(), entries.size_bytes(), stream);
  });
  if (!copied.ok()) return copied;
  return table;
}

Result<std::byte*> AddressTables::acquire_memory() {
  MutexLock lock(mutex_);
  if (!idle_.empty()) {
    std::byte* const at = idle_.back();
    idle_.pop_back();
    return at;
  }
  if (slabs_.empty() || slabs_.back()->bytes() - last_slab_used_bytes_ < table_bytes_) {
    const RelaxedCapture relaxed(device_);
    Result<std::shared_ptr<MappedMemory>> slab = backend_.allocate(table_bytes_, 0);
    if (!slab.ok()) return slab.status();
    slabs_.push_back(*std::move(slab));
    last_slab_used_bytes_ = 0;
  }
  std::byte* const at = slabs_.back()->base() + last_slab_used_bytes_;
  last_slab_used_bytes_ += table_bytes_;
  return at;
}

void AddressTables::release_memory(std::byte* at) {
  MutexLock lock(mutex_);
  idle_.push_back(at);
}

}  // namespace ashlar::symm
