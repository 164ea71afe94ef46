// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for the parts of PyTorch that the native allocator uses, for machines without PyTorch.
// Declares the interface of PyTorch 2.x, where x is STANDIN_TORCH_MINOR (6 to 11). The functions of
// the GPU runtime only record their calls; memory comes from a simulated device of Ashlar. Tests
// read and change the state of the stand-in through standin_state.
//
// The headers c10/... and torch/version.h, which forward here, have the names of PyTorch's headers.
// With USE_ROCM, the names are those of PyTorch for ROCm, as translated by version 1 of hipify, or
// by version 2 if HIPIFY_V2 is defined.
//
// The file is long because its declarations depend on each other, as those of PyTorch's headers do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#ifndef STANDIN_TORCH_MINOR
#define STANDIN_TORCH_MINOR 11
#endif
#define STANDIN_TEXT_OF(x) #x
#define STANDIN_TEXT(x) STANDIN_TEXT_OF(x)
#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR STANDIN_TORCH_MINOR
#define TORCH_VERSION "2." STANDIN_TEXT(STANDIN_TORCH_MINOR) ".0"

// Checks and errors.

#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define TORCH_CHECK_WITH(Type, condition, ...)                              \
  do {                                                                      \
    if (C10_UNLIKELY(!(condition))) throw c10::Type(c10::str(__VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_WITH(Error, condition, __VA_ARGS__)
#define TORCH_WARN(...) standin_state().warnings.push_back(c10::str(__VA_ARGS__))

namespace c10 {

template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream joined;
  (joined << ... << parts);
  return joined.str();
}

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

// Devices and memory.

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, HIP = 6 };
using DeviceIndex = int8_t;

struct Device {
  Device(DeviceType device_type, DeviceIndex device_index)
      : type(device_type), index(device_index) {}
  DeviceType type;
  DeviceIndex index;
  friend bool operator==(const Device&, const Device&) = default;
};

using DeleterFnPtr = void (*)(void*);

class DataPtr {
 public:
  DataPtr(void* data, void* context, DeleterFnPtr deleter, Device device)
      : data_(data), context_(context, deleter), device_(device) {}
  void* get() const { return data_; }
  void* get_context() const { return context_.get(); }
  DeleterFnPtr get_deleter() const { return context_.get_deleter(); }
  void* release_context() { return context_.release(); }
  Device device() const { return device_; }

 private:
  void* data_;
  std::unique_ptr<void, DeleterFnPtr> context_;
  Device device_;
};

struct Allocator {
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t bytes) = 0;
  virtual DeleterFnPtr raw_deleter() const { return nullptr; }
  virtual void copy_data(void* to, const void* from, std::size_t bytes) const = 0;
};
void SetAllocator(DeviceType type, Allocator* allocator, uint8_t priority = 0);
Allocator* GetAllocator(DeviceType type);

bool memoryProfilingEnabled();
void reportMemoryUsageToProfiler(void* memory, int64_t bytes, size_t allocated, size_t reserved,
                                 Device device);
void reportOutOfMemoryToProfiler(int64_t bytes, size_t allocated, size_t reserved, Device device);

struct GatheredContext {
  virtual ~GatheredContext() = default;
};

using approx_time_t = uint64_t;
approx_time_t getApproximateTime();

struct Stream {
  DeviceIndex device;
  void* handle;
};

namespace impl {

struct PyInterpreterVTable {
  virtual ~PyInterpreterVTable() = default;
  virtual void trace_gpu_memory_allocation(DeviceType type, uintptr_t memory) const = 0;
  virtual void trace_gpu_memory_deallocation(DeviceType type, uintptr_t memory) const = 0;
};
struct PyInterpreter {
  const PyInterpreterVTable* table;
  const PyInterpreterVTable* operator->() const { return table; }
};
struct GPUTrace {
  static const PyInterpreter* get_trace();
};

}  // namespace impl

namespace CachingAllocator {

struct Stat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t freed = 0;
};
using StatArray = std::array<Stat, 3>;
std::string format_size(uint64_t bytes);

}  // namespace CachingAllocator

class FreeMemoryCallback {
 public:
  virtual ~FreeMemoryCallback() = default;
  virtual bool Execute() = 0;
};
struct FreeMemoryRegistry {
  std::vector<std::string> Keys() const;
  std::unique_ptr<FreeMemoryCallback> Create(const std::string& key) const;
};

namespace CachingDeviceAllocator {

struct DeviceStats {
  CachingAllocator::StatArray allocation;
  CachingAllocator::StatArray segment;
  CachingAllocator::StatArray active;
  CachingAllocator::StatArray inactive_split;
  CachingAllocator::StatArray allocated_bytes;
  CachingAllocator::StatArray reserved_bytes;
  CachingAllocator::StatArray active_bytes;
  CachingAllocator::StatArray inactive_split_bytes;
  CachingAllocator::StatArray requested_bytes;
  int64_t num_alloc_retries = 0;
  int64_t num_ooms = 0;
  CachingAllocator::Stat oversize_allocations;
  CachingAllocator::Stat oversize_segments;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  int64_t max_split_size = 0;
};

}  // namespace CachingDeviceAllocator

#if STANDIN_TORCH_MINOR >= 9
struct DeviceAllocator : Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(std::pair<unsigned long long, unsigned long long> pool = {0, 0}) = 0;
  virtual void recordStream(const DataPtr& memory, Stream stream) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(DeviceIndex device) = 0;
  virtual void resetPeakStats(DeviceIndex device) = 0;
};
#else
using DeviceAllocator = Allocator;
#endif

}  // namespace c10

// The GPU runtime, under the names of CUDA or of HIP.

#if defined(USE_ROCM) && !defined(HIPIFY_V2)
#define STANDIN_HIP_NAMES
#endif
#if defined(USE_ROCM)
using hipStream_t = struct ihipStream_t*;
using hipError_t = int;
inline constexpr int hipMemcpyDeviceToDevice = 3;
#define STANDIN_RUNTIME(name) hip##name
#define STANDIN_STREAM hipStream_t
#else
using cudaStream_t = struct CUstream_st*;
using cudaError_t = int;
inline constexpr int cudaMemcpyDeviceToDevice = 3;
#define STANDIN_RUNTIME(name) cuda##name
#define STANDIN_STREAM cudaStream_t
#endif
#if defined(STANDIN_HIP_NAMES)
#define C10_HIP_CHECK(call) TORCH_CHECK((call) == 0, #call)
#else
#define C10_CUDA_CHECK(call) TORCH_CHECK((call) == 0, #call)
#endif
int STANDIN_RUNTIME(MemcpyAsync)(void* to, const void* from, size_t bytes, int kind,
                                 STANDIN_STREAM stream);
int STANDIN_RUNTIME(MemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device,
                                     size_t bytes, STANDIN_STREAM stream);
int STANDIN_RUNTIME(Memcpy)(void* to, const void* from, size_t bytes, int kind);
int STANDIN_RUNTIME(MemGetInfo)(size_t* free_bytes, size_t* total_bytes);

namespace c10 {
#if defined(STANDIN_HIP_NAMES)
FreeMemoryRegistry* FreeHipMemoryCallbacksRegistry();
namespace hip {
using HIPStream = class StandinStream;
#else
FreeMemoryRegistry* FreeCudaMemoryCallbacksRegistry();
namespace cuda {
using CUDAStream = class StandinStream;
#endif

class StandinStream {
 public:
  explicit StandinStream(Stream stream) : stream_(stream) {}
  STANDIN_STREAM stream() const { return static_cast<STANDIN_STREAM>(stream_.handle); }
  DeviceIndex device_index() const { return stream_.device; }

 private:
  Stream stream_;
};
#if defined(STANDIN_HIP_NAMES)
StandinStream getCurrentHIPStream(DeviceIndex device);
#else
StandinStream getCurrentCUDAStream(DeviceIndex device);
#endif
DeviceIndex current_device();
int GetDevice(DeviceIndex* device);

#if defined(STANDIN_HIP_NAMES)
namespace HIPCachingAllocator {
using HIPAllocator = class StandinAllocator;
using HIPAllocatorConfig = class StandinConfig;
#else
namespace CUDACachingAllocator {
using CUDAAllocator = class StandinAllocator;
using CUDAAllocatorConfig = class StandinConfig;
#endif

using MempoolId = std::pair<unsigned long long, unsigned long long>;
using Context = std::shared_ptr<GatheredContext>;
using CreateContextFn = Context (*)();
enum struct RecordContext { NEVER = 0, STATE = 1, ALLOC = 2, ALL = 3 };

union TraceTime {
  time_t t_;
  approx_time_t approx_t_;
};

struct TraceEntry {
  enum Action {
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OOM
  };
  TraceEntry(Action action, DeviceIndex device, size_t address, size_t size, void* stream,
#if STANDIN_TORCH_MINOR >= 7
             MempoolId mempool,
#endif
             approx_time_t time, Context context = nullptr
#if STANDIN_TORCH_MINOR >= 8
             ,
             std::string compile_context = ""
#endif
#if STANDIN_TORCH_MINOR >= 10
             ,
             std::string user_metadata = ""
#endif
             )
      : action_(action),
        device_(device),
        addr_(address),
        size_(size),
        stream_(stream),
        context_(std::move(context)) {
    time_.approx_t_ = time;
#if STANDIN_TORCH_MINOR >= 7
    mempool_ = mempool;
#endif
#if STANDIN_TORCH_MINOR >= 8
    compile_context_ = std::move(compile_context);
#endif
#if STANDIN_TORCH_MINOR >= 10
    user_metadata_ = std::move(user_metadata);
#endif
  }
  Action action_;
  DeviceIndex device_;
  size_t addr_;
  size_t size_;
  void* stream_;
  MempoolId mempool_;
  Context context_;
  TraceTime time_{};
  std::string compile_context_;
  std::string user_metadata_;
};
using AllocatorTraceTracker = std::function<void(const TraceEntry&)>;
using OutOfMemoryObserver =
    std::function<void(int64_t device, size_t wanted, size_t limit, size_t free_bytes)>;

struct AnnotationEntry {
  AnnotationEntry(DeviceIndex device, approx_time_t time) : device_(device) {
    time_.approx_t_ = time;
  }
  void recordUserMetadata(const std::string& name, std::string value) {
    metadata_[name] = std::move(value);
  }
  DeviceIndex device_;
  TraceTime time_{};
  std::unordered_map<std::string, std::string> metadata_;
};

struct BlockInfo {
  size_t size = 0;
  size_t requested_size = 0;
  int32_t gc_counter = 0;
  bool allocated = false;
  bool active = false;
  Context context_when_allocated;
};

struct SegmentInfo {
  DeviceIndex device = 0;
#if STANDIN_TORCH_MINOR >= 9
  int32_t registration_counter = -1;
#endif
  size_t address = 0;
  size_t total_size = 0;
  size_t requested_size = 0;
  size_t allocated_size = 0;
  size_t active_size = 0;
  void* stream = nullptr;
  bool is_large = false;
  bool is_expandable = false;
  MempoolId owner_private_pool_id = {0, 0};
  std::vector<BlockInfo> blocks;
  Context context_when_allocated;
};

struct AllocatorConfigInfo {
  double garbage_collection_threshold;
  size_t max_split_size;
  size_t pinned_num_register_threads;
  bool expandable_segments;
  bool release_lock_on_malloc;
  bool pinned_use_host_register;
#if STANDIN_TORCH_MINOR >= 10
  bool graph_capture_record_stream_reuse;
#endif
  std::string last_allocator_settings;
  std::vector<size_t> roundup_power2_divisions;
};

struct SnapshotInfo {
  std::vector<SegmentInfo> segments;
  std::vector<std::vector<TraceEntry>> device_traces;
  std::vector<AnnotationEntry> external_annotations;
  AllocatorConfigInfo config_metadata;
};

struct AllocatorState {
  virtual ~AllocatorState() = default;
};
struct CheckpointDelta {
  std::vector<void*> ptrs_freed;
  std::vector<DataPtr> dataptrs_allocd;
};
struct ShareableHandle {
  ptrdiff_t offset;
  std::string handle;
};
struct StreamSegmentSize {
  StreamSegmentSize(STANDIN_STREAM segment_stream, bool is_small, size_t bytes)
      : stream(segment_stream), is_small_pool(is_small), total_size(bytes) {}
  STANDIN_STREAM stream;
  bool is_small_pool;
  size_t total_size;
};

class StandinConfig {
 public:
  static double garbage_collection_threshold() { return 0.5; }
  static size_t max_split_size() { return 64; }
  static size_t pinned_num_register_threads() { return 3; }
  static bool expandable_segments() { return true; }
#if defined(USE_ROCM)
  static bool release_lock_on_hipmalloc() { return true; }
  static bool pinned_use_hip_host_register() { return true; }
#else
  static bool release_lock_on_cudamalloc() { return true; }
  static bool pinned_use_cuda_host_register() { return true; }
#endif
  static std::string last_allocator_settings() { return "max_split_size_mb:64"; }
  static std::vector<size_t> roundup_power2_divisions() { return {4}; }
#if STANDIN_TORCH_MINOR >= 10
  static bool graph_capture_record_stream_reuse() { return true; }
  static double per_process_memory_fraction() { return 1; }
#endif
};

// The pure virtual functions of CUDAAllocator in this version. As in PyTorch, recordStream is
// overloaded, and NativeAllocator overrides one overload.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverloaded-virtual"
class StandinAllocator : public DeviceAllocator {
 public:
  virtual void* raw_alloc(size_t bytes) = 0;
  virtual void* raw_alloc_with_stream(size_t bytes, STANDIN_STREAM stream) = 0;
  virtual void raw_delete(void* memory) = 0;
  virtual void init(int device_count) = 0;
  virtual void setMemoryFraction(double fraction, DeviceIndex device) = 0;
  virtual void enable(bool value) = 0;
  virtual bool isEnabled() const = 0;
  virtual void cacheInfo(DeviceIndex device, size_t* largest) = 0;
  virtual void* getBaseAllocation(void* memory, size_t* bytes) = 0;
  virtual void recordStream(const DataPtr& memory, StandinStream stream) = 0;
#if STANDIN_TORCH_MINOR >= 9
  void recordStream(const DataPtr& memory, Stream stream) override {
    recordStream(memory, StandinStream(stream));
  }
#else
  virtual bool initialized() = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(DeviceIndex device) = 0;
  virtual void resetPeakStats(DeviceIndex device) = 0;
#endif
#if STANDIN_TORCH_MINOR < 8
  virtual void emptyCache() = 0;
  virtual SnapshotInfo snapshot() = 0;
  virtual void recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                             RecordContext when) = 0;
#else
#if STANDIN_TORCH_MINOR < 9
  virtual void emptyCache(MempoolId pool = {0, 0}) = 0;
#endif
  virtual double getMemoryFraction(DeviceIndex device) = 0;
#if STANDIN_TORCH_MINOR >= 11
  virtual SnapshotInfo snapshot(MempoolId pool = {0, 0}, bool include_traces = true) = 0;
#else
  virtual SnapshotInfo snapshot(MempoolId pool = {0, 0}) = 0;
#endif
#if STANDIN_TORCH_MINOR >= 10
  virtual void recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                             RecordContext when, bool clear,
                             const std::vector<std::string>& skip_actions) = 0;
#else
  virtual void recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                             RecordContext when, bool clear) = 0;
#endif
#endif
  virtual void beginAllocateToPool(DeviceIndex device, MempoolId pool,
                                   std::function<bool(STANDIN_STREAM)> filter) = 0;
  virtual void endAllocateToPool(DeviceIndex device, MempoolId pool) = 0;
  virtual void releasePool(DeviceIndex device, MempoolId pool) = 0;
#if STANDIN_TORCH_MINOR >= 7
  virtual int getPoolUseCount(DeviceIndex device, MempoolId pool) = 0;
#endif
#if STANDIN_TORCH_MINOR == 7
  virtual void ensureExistsAndIncrefPool(DeviceIndex device, MempoolId pool) = 0;
#elif STANDIN_TORCH_MINOR == 8
  virtual void createOrIncrefPool(DeviceIndex device, MempoolId pool,
                                  StandinAllocator* allocator = nullptr) = 0;
  virtual void setUseOnOOM(DeviceIndex device, MempoolId pool) = 0;
#elif STANDIN_TORCH_MINOR >= 9
  virtual void createOrIncrefPool(DeviceIndex device, MempoolId pool,
                                  std::shared_ptr<StandinAllocator> allocator = nullptr) = 0;
  virtual void setNoSplit(DeviceIndex device, MempoolId pool) = 0;
#if STANDIN_TORCH_MINOR >= 10
  virtual void setUseOnOOM(DeviceIndex device, MempoolId pool, bool use_on_oom) = 0;
#else
  virtual void setUseOnOOM(DeviceIndex device, MempoolId pool) = 0;
#endif
#endif
#if STANDIN_TORCH_MINOR >= 10
  virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) = 0;
  virtual void setUserMetadata(const std::string& text) = 0;
  virtual std::string getUserMetadata() = 0;
#endif
  virtual bool checkPoolLiveAllocations(DeviceIndex device, MempoolId pool,
                                        const std::unordered_set<void*>& expected) = 0;
  virtual ShareableHandle shareIpcHandle(void* memory) = 0;
  virtual std::shared_ptr<void> getIpcDevPtr(std::string handle) = 0;
  virtual bool isHistoryEnabled() = 0;
#if STANDIN_TORCH_MINOR >= 11
  virtual Context getContextForPointer(const void* memory) = 0;
#endif
  virtual void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& fields) = 0;
#if STANDIN_TORCH_MINOR >= 8
  virtual void pushCompileContext(std::string& name) = 0;
  virtual void popCompileContext() = 0;
#endif
  virtual void attachOutOfMemoryObserver(OutOfMemoryObserver observer) = 0;
  virtual void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) = 0;
  virtual void enablePeerAccess(DeviceIndex device, DeviceIndex accessed) = 0;
  virtual int memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          STANDIN_STREAM stream, bool has_peer_access) = 0;
  virtual std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device,
                                                             MempoolId pool) = 0;
  virtual CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                                 std::shared_ptr<AllocatorState> state) = 0;
  virtual std::string name() = 0;
};
#pragma GCC diagnostic pop

extern std::atomic<StandinAllocator*> allocator;

}  // namespace CUDACachingAllocator or HIPCachingAllocator
}  // namespace cuda or hip
}  // namespace c10

// The state of the stand-in. Tests may change the fields up to `total_bytes`; the other fields
// record calls.
struct StandinState {
  c10::DeviceIndex current_device = 0;
  std::map<c10::DeviceIndex, void*> streams{};  // the current stream of each device
  bool is_profiling = false;
  const c10::impl::PyInterpreter* interpreter = nullptr;
  std::map<std::string, std::function<bool()>> callbacks{};  // FreeMemoryCallbacks by name
  size_t free_bytes = 0;
  size_t total_bytes = 0;

  struct MemoryReport {
    void* memory;
    int64_t bytes;
    size_t allocated;
    size_t reserved;
  };
  std::vector<MemoryReport> reports{};
  std::vector<int64_t> oom_reports{};
  std::vector<std::string> copies{};  // "async", "peer" or "blocking"
  std::vector<std::string> warnings{};
};
StandinState& standin_state();
