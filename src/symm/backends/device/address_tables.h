// SPDX-License-Identifier: Apache-2.0
//
// Tables of the ranks' addresses in device memory, for user kernels. Many tables share an
// allocation. Creating a table never waits for other device work: the back end maps the memory,
// because Device::allocate may synchronize, and the table is filled in a separate stream. Thread
// safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "symm/backends/backend.h"
#include "symm/backends/device/stream_order.h"

namespace ashlar::symm {

class AddressTables {
 public:
  // A table, whose destructor makes its memory available for other tables. REQUIRES: when the table
  // is destroyed, no kernel reads it any more.
  class Table {
   public:
    Table(AddressTables& owner, std::byte* at) : owner_(owner), at_(at) {}
    ~Table() { owner_.release_memory(at_); }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    // Returns the device address of the table, which is an array of device addresses.
    std::byte* const* at() const { return reinterpret_cast<std::byte* const*>(at_); }

   private:
    AddressTables& owner_;
    std::byte* const at_;
  };

  // All tables have `entry_count` entries. `device` and its `backend` must outlive this, and this
  // must outlive its tables.
  AddressTables(Device& device, Backend& backend, size_t entry_count);
  AddressTables(const AddressTables&) = delete;
  AddressTables& operator=(const AddressTables&) = delete;

  // Creates a table of `entries`. REQUIRES: entries.size() == entry_count.
  Result<std::unique_ptr<Table>> make(std::span<std::byte* const> entries);

 private:
  Result<std::byte*> acquire_memory() ASHLAR_EXCLUDES(mutex_);
  void release_memory(std::byte* at) ASHLAR_EXCLUDES(mutex_);

  Device& device_;
  Backend& backend_;
  const size_t table_bytes_;
  BlockingStreams streams_;

  Mutex mutex_;
  std::vector<std::shared_ptr<MappedMemory>> slabs_ ASHLAR_GUARDED_BY(mutex_);
  size_t last_slab_used_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::vector<std::byte*> idle_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
