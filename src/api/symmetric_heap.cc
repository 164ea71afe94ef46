// SPDX-License-Identifier: Apache-2.0
//
// Heaps, pools and their buffers, and the part that all heaps of a process share.
#include <pthread.h>

#include <map>
#include <utility>

#include "api/symmetric_parts.h"
#include "api/unwrap.h"
#include "base/fork_guard.h"
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

constexpr size_t kMostPoolNameBytes = 256;

// Ranks that are threads of one process find each other's memory through what they share. Heaps
// that want other times of life, or other machines, share nothing, and meet as if they were
// processes.
class Processes {
 public:
  static Processes& all() {
    // On purpose without an owner: a process may fork until its very end.
    static Processes* const only = [] {
      // Whoever forks waits until nobody has the lock, which nobody could let go of in the child.
      // Without memory for the handlers, that is left to luck.
      static_cast<void>(::pthread_atfork([] { all().before_fork(); }, [] { all().after_fork(); },
                                         [] { all().after_fork(); }));
      return std::make_unique<Processes>().release();
    }();
    return *only;
  }

  Result<std::shared_ptr<Process>> with(const ProcessOptions& options) ASHLAR_EXCLUDES(mutex_) {
    const Key key{options.heartbeat, options.lease, options.machine};
    MutexLock lock(mutex_);
    std::erase_if(running_, [](const auto& each) { return each.second.expired(); });
    if (const auto found = running_.find(key); found != running_.end()) {
      std::shared_ptr<Process> process = found->second.lock();
      if (process != nullptr && process->check_here().ok()) return process;
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
      text("a timeout of ", timeout.count(), " ms: expected 0, which is for ever, or more"));
}

// --- Heap ---------------------------------------------------------------------------------------

Heap::Heap(const HeapOptions& options) : parts_(make_fork_guarded<Parts>()) {
  if (options.heartbeat.count() < 1) {
    unwrap(Status::invalid_argument(
        text("a heartbeat every ", options.heartbeat.count(), " ms: expected 1 or more")));
  }
  parts_->process = unwrap(Processes::all().with(
      {.heartbeat = options.heartbeat, .lease = options.lease, .machine = options.machine}));
  const RankHeap::Options rank_heap{.pad_bytes = options.pad_bytes};
  if (options.device != nullptr) {
    parts_->device = options.device;
    std::unique_ptr<MulticastDriver> multicast;
    if (dynamic_cast<sim::SimDevice*>(options.device) != nullptr) {
      multicast = std::make_unique<SimMulticast>(*options.device);
    } else if (gpu::GpuDevice* cuda = parts_->cuda_device()) {
      multicast = std::make_unique<CudaMulticast>(*cuda);
    }
    parts_->device_backend = unwrap(DeviceBackend::over(*options.device, std::move(multicast)));
    parts_->rank_heap =
        std::make_unique<RankHeap>(*parts_->process, *parts_->device_backend, rank_heap);
    return;
  }
  BackendRegistry& backends = parts_->process->backends();
  unwrap(backends.select(options.backend));
  parts_->rank_heap = std::make_unique<RankHeap>(*parts_->process, backends.activate(), rank_heap);
}

Result<std::unique_ptr<Operations>> Heap::Parts::operations(const OperationsOptions& options) {
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

void Heap::Parts::prepare() {
  if (gpu::GpuDevice* cuda = cuda_device()) (void)load_kernels(*cuda).ok();
}

gpu::GpuDevice* Heap::Parts::cuda_device() const {
  auto* vendors = dynamic_cast<gpu::GpuDevice*>(device);
  return vendors != nullptr && vendors->properties().backend == "cuda" ? vendors : nullptr;
}

// With the first group: who only allocates does not wait for it.
Status Heap::Parts::load_kernels(gpu::GpuDevice& cuda) {
  MutexLock lock(mutex);
  if (cuda_kernels != nullptr) return {};
  const FailuresBefore before;
  Result<std::unique_ptr<CudaKernels>> loaded = CudaKernels::load(cuda);
  if (!loaded.ok()) {
    before.restore();  // who needs kernels is told why there are none
    return loaded.status();
  }
  cuda_kernels = *std::move(loaded);
  return {};
}

// Pools count their segments under names that no group can have.
Buffer Heap::allocate(size_t bytes, const AllocateOptions& options) {
  unwrap(parts_->check_here());
  if (!options.group.empty()) unwrap(check_name("group", options.group));
  const AllocationOptions allocation{.group = options.group,
                                     .persistent_id = options.persistent_id};
  return Buffer(parts_, unwrap(parts_->rank_heap->allocate(bytes, allocation)), bytes);
}

size_t Heap::live_count() const {
  unwrap(parts_->check_here());
  return parts_->rank_heap->live_count();
}

std::vector<std::string> Heap::backends() const { return parts_->process->backends().names(); }

// --- Buffer -------------------------------------------------------------------------------------

Buffer::Buffer(Buffer&& other) noexcept
    : origin_(std::move(other.origin_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  origin_ = std::move(other.origin_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Buffer::reset() noexcept {
  if (data_ != nullptr) origin_->take_back(data_);
  origin_.reset();
  data_ = nullptr;
  bytes_ = 0;
}

// It is the beginning of a live block, which is all that free asks for; and so below. The copy that
// a forked child has is not its to free.
void Heap::Parts::take_back(std::byte* data) noexcept {
  if (check_here().ok()) (void)rank_heap->free(data).ok();
}

// --- Pool ---------------------------------------------------------------------------------------

Pool::Parts::Parts(std::shared_ptr<Heap::Parts> of_heap, const PoolOptions& options)
    : heap(std::move(of_heap)),
      name(options.name),
      pool(*heap->rank_heap, {.name = options.name, .segment_bytes = options.segment_bytes}) {}

Pool::Parts::~Parts() {
  MutexLock lock(heap->mutex);
  heap->pool_names.erase(name);
}

void Pool::Parts::take_back(std::byte* data) noexcept {
  if (heap->check_here().ok()) (void)pool.free(data).ok();
}

Pool::Pool(const Heap& heap, const PoolOptions& options) {
  unwrap(heap.parts_->check_here());
  if (options.name.empty() || options.name.size() > kMostPoolNameBytes) {
    unwrap(Status::invalid_argument(text("a pool's name of ", options.name.size(),
                                         " bytes: expected 1 to ", kMostPoolNameBytes)));
  }
  if (options.segment_bytes == 0 || options.segment_bytes > kMaxBlockBytes) {
    unwrap(Status::invalid_argument(
        text("segments of ", options.segment_bytes, " bytes: expected 1 to ", kMaxBlockBytes)));
  }
  {
    MutexLock lock(heap.parts_->mutex);
    if (!heap.parts_->pool_names.insert(options.name).second) {
      unwrap(Status::invalid_argument(
          text("this heap has a pool called ", options.name, ": give this one another name")));
    }
  }
  parts_ = make_fork_guarded<Parts>(heap.parts_, options);
}

Buffer Pool::allocate(size_t bytes) {
  unwrap(parts_->heap->check_here());
  return Buffer(parts_, unwrap(parts_->pool.allocate(bytes)), bytes);
}

void Pool::trim() {
  unwrap(parts_->heap->check_here());
  parts_->pool.trim();
}

PoolStats Pool::stats() const {
  unwrap(parts_->heap->check_here());
  const SegmentPool::Stats use = parts_->pool.stats();
  return {.segment_count = use.segment_count,
          .segment_bytes = use.segment_bytes,
          .used_bytes = use.used_bytes,
          .buffer_count = use.buffer_count,
          .act_count = use.calls.number,
          .sequence_hash = use.calls.hash};
}

}  // namespace ashlar::symm
