// SPDX-License-Identifier: Apache-2.0
//
// Implements heaps, pools and their buffers, and owns the state that the heaps of one process
// share.
#include <pthread.h>

#include <map>
#include <utility>

#include "api/symmetric_impl.h"
#include "api/unwrap.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "device/last_error.h"
#include "device/sim/sim_device.h"
#include "symm/backends/cuda/cuda_multicast.h"
#include "symm/backends/cuda/cuda_operations.h"
#include "symm/backends/device/device_backend.h"
#include "symm/backends/device/device_operations.h"
#include "symm/backends/host/host_operations.h"
#include "symm/backends/sim/sim_multicast.h"
#include "symm/backends/sim/sim_operations.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMaxPoolNameBytes = 256;

// Shares one Process between all heaps with equal ProcessOptions, so that ranks that are threads of
// one process find each other's memory. Heaps with different ProcessOptions share nothing and
// behave like separate processes.
class ProcessRegistry {
 public:
  static ProcessRegistry& instance() {
    // Never destroyed: a process may fork until it exits.
    static ProcessRegistry* const singleton = [] {
      // The fork handlers hold the mutex across fork(2), so that no other thread can hold it in the
      // child's copy. If they cannot be registered, a concurrent fork may deadlock the child.
      static_cast<void>(::pthread_atfork([] { instance().before_fork(); },
                                         [] { instance().after_fork(); },
                                         [] { instance().after_fork(); }));
      return std::make_unique<ProcessRegistry>().release();
    }();
    return *singleton;
  }

  Result<std::shared_ptr<Process>> get(const ProcessOptions& options) ASHLAR_EXCLUDES(mutex_) {
    const Key key{options.heartbeat, options.lease, options.machine};
    MutexLock lock(mutex_);
    std::erase_if(running_, [](const auto& each) { return each.second.expired(); });
    if (const auto found = running_.find(key); found != running_.end()) {
      std::shared_ptr<Process> process = found->second.lock();
      if (process != nullptr && process->check_not_forked().ok()) return process;
    }
    Result<std::unique_ptr<Process>> started = Process::start(options);
    if (!started.ok()) return started.status();
    std::shared_ptr<Process> process = *std::move(started);
    running_.insert_or_assign(key, process);
    return process;
  }

 private:
  void before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.lock(); }
  void after_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.unlock(); }

  using Key = std::tuple<std::chrono::milliseconds, std::chrono::milliseconds, std::string>;

  Mutex mutex_;
  std::map<Key, std::weak_ptr<Process>> running_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace

Result<Deadline> deadline_of(Timeout timeout) {
  if (timeout.count() >= 0) return Deadline::of_timeout(timeout);
  return Status::invalid_argument(
      text("timeout of ", timeout.count(), " ms: expected 0 (no timeout) or more"));
}

Heap::Heap(const HeapOptions& options) {
  impl_ = make_fork_guarded<Impl>();
  if (options.heartbeat.count() < 1) {
    unwrap(Status::invalid_argument(
        text("heartbeat of ", options.heartbeat.count(), " ms: expected 1 or more")));
  }
  impl_->process = unwrap(ProcessRegistry::instance().get(
      {.heartbeat = options.heartbeat, .lease = options.lease, .machine = options.machine}));
  const RankHeap::Options rank_heap{.pad_bytes = options.pad_bytes};
  if (options.device != nullptr) {
    impl_->device = options.device;
    std::unique_ptr<MulticastDriver> multicast;
    if (dynamic_cast<sim::SimDevice*>(options.device) != nullptr) {
      multicast = std::make_unique<SimMulticast>(*options.device);
    } else if (gpu::GpuDevice* cuda = impl_->cuda_device()) {
      multicast = std::make_unique<CudaMulticast>(*cuda);
    }
    impl_->device_backend = unwrap(DeviceBackend::make(*options.device, std::move(multicast)));
    impl_->rank_heap =
        std::make_unique<RankHeap>(*impl_->process, *impl_->device_backend, rank_heap);
    return;
  }
  BackendRegistry& backends = impl_->process->backends();
  unwrap(backends.select(options.backend));
  impl_->rank_heap = std::make_unique<RankHeap>(*impl_->process, backends.activate(), rank_heap);
}

Result<std::unique_ptr<Operations>> Heap::Impl::operations(const OperationsOptions& options) {
  if (device == nullptr) return HostOperations::make(options);
  if (auto* simulated = dynamic_cast<sim::SimDevice*>(device)) {
    return SimOperations::make(*simulated, options);
  }
  gpu::GpuDevice* cuda = cuda_device();
  if (cuda == nullptr) {
    return std::unique_ptr<Operations>(std::make_unique<DeviceOperations>(*device, options));
  }
  if (Status loaded = load_kernels(*cuda); !loaded.ok()) {
    return std::unique_ptr<Operations>(
        std::make_unique<DeviceOperations>(*device, options, std::move(loaded)));
  }
  return CudaOperations::make({*cuda_kernels, *device_backend}, options);
}

void Heap::Impl::prepare() {
  if (gpu::GpuDevice* cuda = cuda_device()) (void)load_kernels(*cuda).ok();
}

gpu::GpuDevice* Heap::Impl::cuda_device() const {
  auto* gpu_device = dynamic_cast<gpu::GpuDevice*>(device);
  return gpu_device != nullptr && gpu_device->properties().backend == "cuda" ? gpu_device : nullptr;
}

// Called whenever a group is joined; only the first successful call loads the kernels. Programs
// without groups therefore never load kernels.
Status Heap::Impl::load_kernels(gpu::GpuDevice& cuda) {
  MutexLock lock(mutex);
  if (cuda_kernels != nullptr) return {};
  SavedLastErrors before;
  Result<std::unique_ptr<CudaKernels>> loaded = CudaKernels::load(cuda);
  if (!loaded.ok()) {
    before.restore();  // not an error yet: operations that need kernels report it
    return loaded.status();
  }
  cuda_kernels = *std::move(loaded);
  return {};
}

// Checks the group name, because pools allocate their segments under names that no group can have.
SymmetricBuffer Heap::allocate(size_t bytes, const AllocateOptions& options) {
  unwrap(impl_->check_not_forked());
  if (!options.group.empty()) unwrap(check_name("group", options.group));
  const AllocationOptions allocation{.group = options.group,
                                     .persistent_id = options.persistent_id};
  return SymmetricBuffer(impl_, unwrap(impl_->rank_heap->allocate(bytes, allocation)), bytes);
}

size_t Heap::live_count() const {
  unwrap(impl_->check_not_forked());
  return impl_->rank_heap->live_count();
}

std::vector<std::string> Heap::backends() const { return impl_->process->backends().names(); }

SymmetricBuffer::SymmetricBuffer(SymmetricBuffer&& other) noexcept
    : origin_(std::move(other.origin_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SymmetricBuffer& SymmetricBuffer::operator=(SymmetricBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  origin_ = std::move(other.origin_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void SymmetricBuffer::reset() noexcept {
  if (data_ != nullptr) origin_->free(data_);
  origin_.reset();
  data_ = nullptr;
  bytes_ = 0;
}

// This function and SymmetricPool::Impl::free cannot fail, because `data` is the start of a live
// block. In the child of a fork they do nothing, because the buffer belongs to the parent.
void Heap::Impl::free(std::byte* data) noexcept {
  if (check_not_forked().ok()) (void)rank_heap->free(data).ok();
}

SymmetricPool::Impl::Impl(std::shared_ptr<Heap::Impl> heap_arg, const SymmetricPoolOptions& options)
    : heap(std::move(heap_arg)),
      name(options.name),
      pool(*heap->rank_heap, {.name = options.name, .segment_bytes = options.segment_bytes}) {}

SymmetricPool::Impl::~Impl() {
  MutexLock lock(heap->mutex);
  heap->pool_names.erase(name);
}

void SymmetricPool::Impl::free(std::byte* data) noexcept {
  if (heap->check_not_forked().ok()) (void)pool.free(data).ok();
}

SymmetricPool::SymmetricPool(const Heap& heap, const SymmetricPoolOptions& options) {
  unwrap(heap.impl_->check_not_forked());
  if (options.name.empty() || options.name.size() > kMaxPoolNameBytes) {
    unwrap(Status::invalid_argument(
        text("pool name of ", options.name.size(), " bytes: expected 1 to ", kMaxPoolNameBytes)));
  }
  if (options.segment_bytes == 0 || options.segment_bytes > kMaxBlockBytes) {
    unwrap(Status::invalid_argument(
        text("segments of ", options.segment_bytes, " bytes: expected 1 to ", kMaxBlockBytes)));
  }
  {
    MutexLock lock(heap.impl_->mutex);
    if (!heap.impl_->pool_names.insert(options.name).second) {
      unwrap(Status::invalid_argument(
          text("the heap already has a pool called ", options.name, ": choose another name")));
    }
  }
  ScopeGuard undo([&] {
    MutexLock lock(heap.impl_->mutex);
    heap.impl_->pool_names.erase(options.name);
  });
  impl_ = make_fork_guarded<Impl>(heap.impl_, options);
  undo.dismiss();  // the destructor of Impl erases the name
}

SymmetricBuffer SymmetricPool::allocate(size_t bytes) {
  unwrap(impl_->heap->check_not_forked());
  return SymmetricBuffer(impl_, unwrap(impl_->pool.allocate(bytes)), bytes);
}

void SymmetricPool::trim() {
  unwrap(impl_->heap->check_not_forked());
  impl_->pool.trim();
}

SymmetricPoolStats SymmetricPool::stats() const {
  unwrap(impl_->heap->check_not_forked());
  const SegmentPool::Stats use = impl_->pool.stats();
  return {.segment_count = use.segment_count,
          .segment_bytes = use.segment_bytes,
          .used_bytes = use.used_bytes,
          .buffer_count = use.buffer_count,
          .call_count = use.calls.number,
          .sequence_hash = use.calls.hash};
}

}  // namespace ashlar::symm
