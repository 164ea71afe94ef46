// SPDX-License-Identifier: Apache-2.0
//
// The implementations of the public types of symmetric memory. Each owns a reference to the objects
// it uses, and is created by make_fork_guarded, so that destructors do nothing in the child of a
// fork.
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

// kInvalidArgument: the timeout is negative. kNoTimeout yields Deadline::never().
Result<Deadline> deadline_of(Timeout timeout);

// kInvalidArgument if the memory has no multicast address. `instead` names the alternative.
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

struct Heap::Impl final : SymmetricBuffer::Origin {
  void free(std::byte* data) noexcept override;

  // kInvalidArgument in the child of a fork, which has none of the heap's threads.
  Status check_not_forked() const { return process->check_not_forked(); }
  // Does everything that may synchronize the device, before ranks connect: afterwards, a kernel of
  // a peer may be waiting for this rank. Errors are reported by `operations`.
  void prepare() ASHLAR_EXCLUDES(mutex);
  // Creates the operations for this heap's kind of memory.
  Result<std::unique_ptr<Operations>> operations(const OperationsOptions& options);
  // kUnsupported, with the reason, if there are no kernels for the device.
  Status load_kernels(gpu::GpuDevice& cuda) ASHLAR_EXCLUDES(mutex);
  gpu::GpuDevice* cuda_device() const;  // null if the device is not a CUDA device

  std::shared_ptr<Process> process;  // also owned by other heaps of this process
  Device* device = nullptr;          // null: host memory
  std::unique_ptr<Backend> device_backend;
  std::unique_ptr<RankHeap> rank_heap;
  // Set once, under the mutex; null if not loaded, or not a CUDA device.
  std::unique_ptr<CudaKernels> cuda_kernels;

  Mutex mutex;
  std::set<std::string> pool_names ASHLAR_GUARDED_BY(mutex);
};

struct SymmetricPool::Impl final : SymmetricBuffer::Origin {
  Impl(std::shared_ptr<Heap::Impl> of_heap, const SymmetricPoolOptions& options);
  ~Impl() override;
  void free(std::byte* data) noexcept override;

  const std::shared_ptr<Heap::Impl> heap;
  const std::string name;
  SegmentPool pool;
};

// The group's signal pad has one more channel than users see, for collectives.
struct Group::Impl {
  Impl(std::shared_ptr<Heap::Impl> of_heap, std::shared_ptr<Store> of_store,
       GroupOptions with_options)
      : heap(std::move(of_heap)), store(std::move(of_store)), options(std::move(with_options)) {}
  // Ends the group before its work in streams is waited for, so that blocked work returns.
  ~Impl() { communicator.reset(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Ok if operations are possible; an error if the group belongs to another process, was left, or
  // has failed.
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
  // Constant after joining.
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<CountingOperations> operations;
  std::unique_ptr<AddressTables> tables;  // null for host memory
  Thresholds thresholds;

  InFlightWork in_flight;  // work of the group itself; handles track their own
  // Relaxed: it guards no memory. A call concurrent with `leave` may see either value.
  std::atomic<bool> is_left{false};
};

struct Handle::Impl {
  Impl(std::shared_ptr<Group::Impl> of_group, PeerHandle of_peers)
      : group(std::move(of_group)), peers(std::move(of_peers)) {}
  // Waits first: only then is it known whether the work has failed.
  ~Impl() {
    in_flight.wait();
    const bool has_failed = group->communicator->failure()->has_happened();
    if (has_failed || group->operations->has_failed_work()) group->communicator->keep_multicast();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The table of addresses on the device: all buffers, followed by all pads. REQUIRES: device
  // memory.
  Result<std::byte* const*> table_on_device() const ASHLAR_EXCLUDES(mutex);

  std::shared_ptr<Group::Impl> group;
  PeerHandle peers;
  std::vector<std::byte*> buffers;
  std::vector<std::byte*> pads;
  mutable InFlightWork in_flight;  // work on this memory; destroyed first, after waiting for it

  mutable Mutex mutex;
  // Created on first use.
  mutable std::unique_ptr<AddressTables::Table> table ASHLAR_GUARDED_BY(mutex);
};

}  // namespace ashlar::symm
