// SPDX-License-Identifier: Apache-2.0
//
// Tables of addresses in a device's memory, for kernels of the user's: as many for each group as
// its handles ask for, many to an allocation. Nothing here waits for anybody's work: memory is
// mapped, not allocated by a call that may, and filled in a stream of its own. Thread safe.
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
  // Gives its place back. Whoever reads it is done by then.
  class Table {
   public:
    Table(AddressTables& all, std::byte* at) : all_(all), at_(at) {}
    ~Table() { all_.give_back(at_); }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    // Addresses of the device, at one.
    std::byte* const* at() const { return reinterpret_cast<std::byte* const*>(at_); }

   private:
    AddressTables& all_;
    std::byte* const at_;
  };

  // All tables have so many entries. `device` and `backend`, which is the device's, outlive it, and
  // it outlives its tables.
  AddressTables(Device& device, Backend& backend, size_t entry_count);
  AddressTables(const AddressTables&) = delete;
  AddressTables& operator=(const AddressTables&) = delete;

  // REQUIRES: as many entries as there are.
  Result<std::unique_ptr<Table>> make(std::span<std::byte* const> entries);

 private:
  Result<std::byte*> take() ASHLAR_EXCLUDES(mutex_);
  void give_back(std::byte* at) ASHLAR_EXCLUDES(mutex_);

  Device& device_;
  Backend& backend_;
  const size_t table_bytes_;
  OwnStreams streams_;

  Mutex mutex_;
  std::vector<std::shared_ptr<MappedMemory>> slabs_ ASHLAR_GUARDED_BY(mutex_);
  size_t begun_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of the last slab
  std::vector<std::byte*> idle_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
