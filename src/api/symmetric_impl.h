// SPDX-License-Identifier: Apache-2.0
//
// The implementations of the public types of symmetric memory. Each one keeps the objects that it
// uses alive, and is created by make_fork_guarded, so that destructors do nothing in the child of a
// fork.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/symmetric.h"
#include "base/fork_guard.h"
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

// Converts a timeout to a deadline; kNoTimeout becomes a deadline that never passes.
// kInvalidArgument: the timeout is negative.
Result<Deadline> deadline_of(Timeout timeout);

// Returns kInvalidArgument if the memory has no multicast address. The message suggests `instead`.
Status check_multicast(const PeerTable& peers, std::string_view instead);

// The owner that a buffer is returned to: a heap or a pool.
struct SymmetricBuffer::Origin {
  Origin() = default;
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
  // REQUIRES: `data` is the start of a buffer of this owner.
  virtual void free(std::byte* data) noexcept = 0;
};

struct Heap::Impl final : SymmetricBuffer::Origin, std::enable_shared_from_this<Heap::Impl> {
  void free(std::byte* data) noexcept override;

  // Returns kInvalidArgument in the child of a fork, which has none of the heap's threads.
  Status check_not_forked() const { return process->check_not_forked(); }
  // Does all work that may synchronize the device. Called before ranks connect: after that, a
  // peer's kernel may wait for this rank, so synchronizing might never return. Ignores errors,
  // which `operations` reports.
  void prepare() ASHLAR_EXCLUDES(mutex);
  // Creates the operations for this heap's kind of memory.
  Result<std::unique_ptr<Operations>> operations(const OperationsOptions& options);
  // Loads the kernels once. kUnsupported: the library has no kernels for the device; the message
  // gives the reason.
  Status load_kernels(gpu::GpuDevice& cuda) ASHLAR_EXCLUDES(mutex);
  gpu::GpuDevice* cuda_device() const;  // null if the device is not a CUDA device

  std::shared_ptr<Process> process;  // also owned by other heaps of this process
  Device* device = nullptr;          // null: host memory
  std::unique_ptr<Backend> device_backend;
  std::unique_ptr<RankHeap> rank_heap;
  // Set once, under the mutex; null if the kernels are not loaded or the device is not a CUDA
  // device.
  std::unique_ptr<CudaKernels> cuda_kernels;

  Mutex mutex;
  std::set<std::string> pool_names ASHLAR_GUARDED_BY(mutex);
};

struct SymmetricPool::Impl final : SymmetricBuffer::Origin {
  Impl(std::shared_ptr<Heap::Impl> heap_arg, const SymmetricPoolOptions& options);
  ~Impl() override;
  void free(std::byte* data) noexcept override;

  const std::shared_ptr<Heap::Impl> heap;
  const std::string name;
  SegmentPool pool;
};

// The group's signal pad has one channel more than GroupOptions::channel_count, for collectives.
struct Group::Impl : std::enable_shared_from_this<Group::Impl> {
  Impl(std::shared_ptr<Heap::Impl> heap_arg, std::shared_ptr<Store> store_arg,
       GroupOptions options_arg)
      : heap(std::move(heap_arg)), store(std::move(store_arg)), options(std::move(options_arg)) {}
  // Ends the group before the destructor of `in_flight` waits for work, so that blocked work
  // returns.
  ~Impl() { communicator.reset(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Returns ok if operations are possible; an error if the group belongs to another process, was
  // left, or has failed.
  Status state() const;
  Status check_channel(int channel) const;
  bool all_direct() const;
  Result<int> global_rank(int rank) const;
  // Runs an operation after checking the timeout and the state of the group. Queued work is
  // registered in `in_flight_work`.
  template <typename Operation>
  Status run(const Operation& operation, Timeout timeout, std::optional<StreamId> stream,
             InFlightWork& in_flight_work) const {
    if (Status invalid = deadline_of(timeout).status(); !invalid.ok()) return invalid;
    if (Status unusable = state(); !unusable.ok()) return unusable;
    return operations->run(operation,
                           {.stream = stream, .timeout = timeout, .in_flight = &in_flight_work});
  }
  Status signal(const Signal& request, Timeout timeout, std::optional<StreamId> stream,
                InFlightWork& in_flight_work) const;
  // Measures the thresholds of all-reduce. Collective. REQUIRES: called right after joining.
  Status measure(Deadline deadline);

  const std::shared_ptr<Heap::Impl> heap;
  const std::shared_ptr<Store> store;
  const GroupOptions options;
  // The next four members are constant after joining.
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<CountingOperations> operations;
  std::unique_ptr<AddressTables> tables;  // null for host memory
  Thresholds thresholds;

  InFlightWork in_flight;  // work of the group itself; each handle tracks its own work
  // Accessed with relaxed order, because it guards no other memory. A call concurrent with `leave`
  // may see either value.
  std::atomic<bool> is_left{false};
};

struct Handle::Impl {
  Impl(std::shared_ptr<Group::Impl> group_arg, PeerHandle peers_arg)
      : group(std::move(group_arg)), peers(std::move(peers_arg)) {}
  // Waits for the work before checking for failures, because running work may still fail.
  ~Impl() {
    in_flight.wait();
    const bool has_failed = group->communicator->failure()->has_happened();
    if (has_failed || group->operations->has_failed_work()) group->communicator->keep_multicast();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Returns the table of addresses on the device: all buffers, followed by all pads. Creates the
  // table on the first call. REQUIRES: the heap has device memory.
  Result<std::byte* const*> table_on_device() const ASHLAR_EXCLUDES(mutex);

  std::shared_ptr<Group::Impl> group;
  PeerHandle peers;
  std::vector<std::byte*> buffers;
  std::vector<std::byte*> pads;
  mutable InFlightWork in_flight;  // work on this memory; ~Impl waits for it

  mutable Mutex mutex;
  // Created on first use.
  mutable std::unique_ptr<AddressTables::Table> table ASHLAR_GUARDED_BY(mutex);
};

}  // namespace ashlar::symm
