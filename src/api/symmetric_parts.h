// SPDX-License-Identifier: Apache-2.0
//
// What the public types of symmetric memory are made of. Each part keeps alive what it needs, and
// is made by make_fork_guarded: where a process forks, nothing of it ends in the child.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/symmetric.h"
#include "symm/backends/cuda/cuda_kernels.h"
#include "symm/backends/device/address_tables.h"
#include "symm/core/in_flight_work.h"
#include "symm/membership/process.h"
#include "symm/memory/rank_heap.h"
#include "symm/memory/segment_pool.h"
#include "symm/operations/counting_operations.h"
#include "symm/operations/operations.h"
#include "symm/rendezvous/communicator.h"

namespace ashlar::symm {

// kInvalidArgument: negative. 0 is for ever.
Result<Deadline> deadline_of(Timeout timeout);

// kInvalidArgument: the memory has none, and what to use `instead`.
Status check_multicast(const PeerTable& peers, std::string_view instead);

// Whom a buffer goes back to.
struct Buffer::Origin {
  Origin() = default;
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
  // REQUIRES: the beginning of a buffer that came from here.
  virtual void take_back(std::byte* data) noexcept = 0;
};

struct Heap::Parts final : Buffer::Origin {
  void take_back(std::byte* data) noexcept override;

  // kInvalidArgument: this is a child of the process that made it, and has none of its threads.
  Status check_here() const { return process->check_here(); }
  // What may wait for the device, before ranks meet: afterwards kernels of another may wait for
  // this one. What could not be had, `operations` says.
  void prepare() ASHLAR_EXCLUDES(mutex);
  // What ranks do with this memory.
  Result<std::unique_ptr<Operations>> operations(const OperationsOptions& options);
  // kUnsupported: there are none, and why.
  Status load_kernels(gpu::GpuDevice& cuda) ASHLAR_EXCLUDES(mutex);
  gpu::GpuDevice* cuda_device() const;  // null: it is none of CUDA's

  std::shared_ptr<Process> process;  // also owned by this process's other heaps
  Device* device = nullptr;          // null: the host's memory
  std::unique_ptr<Backend> device_backend;
  std::unique_ptr<RankHeap> rank_heap;
  // Set once, under the mutex; null: not loaded, or the device is not CUDA's.
  std::unique_ptr<CudaKernels> cuda_kernels;

  Mutex mutex;
  std::set<std::string> pool_names ASHLAR_GUARDED_BY(mutex);
};

struct Pool::Parts final : Buffer::Origin {
  Parts(std::shared_ptr<Heap::Parts> of_heap, const PoolOptions& options);
  ~Parts() override;
  void take_back(std::byte* data) noexcept override;

  const std::shared_ptr<Heap::Parts> heap;
  const std::string name;
  SegmentPool pool;
};

// The group's pad has one channel more than users see: collectives meet there.
struct Group::Parts {
  Parts(std::shared_ptr<Heap::Parts> of_heap, std::shared_ptr<Store> of_store,
        GroupOptions with_options)
      : heap(std::move(of_heap)), store(std::move(of_store)), options(std::move(with_options)) {}
  // The group is over before its work in streams is waited for: that ends with it.
  ~Parts() { communicator.reset(); }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Ok: it can be worked with. Otherwise it is of another process, was left, or has failed.
  Status state() const;
  Status check_channel(int channel) const;
  bool all_direct() const;
  Result<int> global_rank(int rank) const;
  // The facade's way to all operations: the group is as it should be, the arguments make sense.
  template <typename What>
  Status run(const What& what, Timeout timeout, std::optional<StreamId> stream,
             InFlightWork& keeper) const {
    if (Status time = deadline_of(timeout).status(); !time.ok()) return time;
    if (Status over = state(); !over.ok()) return over;
    return operations->run(what, {.stream = stream, .timeout = timeout, .in_flight = &keeper});
  }
  Status signal(const Signal& what, Timeout timeout, std::optional<StreamId> stream,
                InFlightWork& keeper) const;
  // REQUIRES: just joined; collective.
  Status measure(Deadline deadline);

  const std::shared_ptr<Heap::Parts> heap;
  const std::shared_ptr<Store> store;
  const GroupOptions options;
  // Constant once joined.
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<CountingOperations> operations;
  std::unique_ptr<AddressTables> tables;  // null: the host's memory
  Thresholds thresholds;

  InFlightWork in_flight;  // of the group's own; handles count theirs
  // Relaxed: it guards no memory, which stays mapped; a call that overlaps `leave` may see either.
  std::atomic<bool> is_left{false};
};

struct Handle::Parts {
  Parts(std::shared_ptr<Group::Parts> of_group, PeerHandle of_peers)
      : group(std::move(of_group)), peers(std::move(of_peers)) {}
  // How the work ended is known once it was waited for.
  ~Parts() {
    in_flight.wait();
    const bool has_failed = group->communicator->failure()->has_happened();
    if (has_failed || group->operations->has_failed_work()) group->communicator->keep_multicast();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Where the buffers' addresses begin on the device, and behind them the pads'.
  // REQUIRES: it is a device's memory.
  Result<std::byte* const*> table_on_device() const ASHLAR_EXCLUDES(mutex);

  std::shared_ptr<Group::Parts> group;
  PeerHandle peers;
  std::vector<std::byte*> buffers;
  std::vector<std::byte*> pads;
  mutable InFlightWork in_flight;  // of work with this memory: it waits, and goes first

  mutable Mutex mutex;
  // Made when it is first asked for.
  mutable std::unique_ptr<AddressTables::Table> table ASHLAR_GUARDED_BY(mutex);
};

}  // namespace ashlar::symm
