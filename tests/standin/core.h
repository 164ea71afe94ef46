// SPDX-License-Identifier: Apache-2.0
//
// The core of the stand-in drivers: the calls of a GPU driver with the error codes and behaviour
// that CUDA and HIP share, implemented on a simulated machine. shared_*.cc, cuda.cc and hip.cc
// export them under the vendors' names.
//
// Like a real driver, aborts the process on an unknown handle, so that a back end that passes on
// an unknown handle fails its tests. Unknown streams are rejected instead; see current_device.h.
// Destroys the user objects of graphs in a thread of its own (callback_thread.h).
// Thread safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/sim.h"
#include "standin/callback_thread.h"
#include "standin/multicasts.h"

namespace ashlar::standin {

inline constexpr Code kDone = 0;
inline constexpr Code kInvalidValue = 1;
inline constexpr Code kNoMemory = 2;
inline constexpr Code kInvalidDevice = 101;
inline constexpr Code kInvalidContext = 201;
inline constexpr Code kInvalidHandle = 400;
inline constexpr Code kNotReady = 600;
inline constexpr Code kLost = 700;
inline constexpr Code kPeerAlreadyEnabled = 704;
inline constexpr Code kPeerNotEnabled = 705;
inline constexpr Code kNotPermitted = 800;
inline constexpr Code kNotSupported = 801;
inline constexpr Code kSystemNotReady = 802;
inline constexpr Code kUnknown = 999;

// How the driver treats an extent that is mapped twice. A driver that loses stores accepts the
// second mapping and reports success for every transfer, as real drivers with this bug do.
enum class AliasBehavior {
  kCoherent,
  kRefused,
  kLosesStoresThroughFirst,
  kLosesStoresThroughSecond
};

// The features of the simulated driver. Tests switch some off before they open a device.
struct Features {
  bool virtual_memory = true;
  AliasBehavior alias = AliasBehavior::kCoherent;
  bool export_fd = true;
  bool export_fabric = true;
  bool export_both = true;  // one extent can be exported as a descriptor and as a fabric handle
  bool share_allocations = true;
  bool stream_ordered_pool = true;
  bool reserve_alignment = true;  // accepts an alignment above the granularity
  bool read_only_access = true;   // accepts Access::kRead
  bool multicast = true;
  size_t multicast_granules = 1;  // the multicast granularity, as a multiple of the granularity
};

class Core {
 public:
  // Returns the instance of this library, which starts with two small devices.
  static Core& get();

  // Replaces the machine and removes all handles, mappings and results from set_result(). REQUIRES:
  // the old machine is no longer in use.
  void restart(const sim::Options& options, const Features& features);
  sim::Machine& machine();
  const Features& features() const { return features_; }
  size_t device_count() { return machine().device_count(); }
  Device& device(size_t index) { return machine().device(DeviceIndex(index)); }

  // Makes the driver function `call` return `code`; kDone makes it work again. Supports the
  // cuMulticast* functions, and the functions that map, export or import multicast objects or
  // fabric handles; calls with other arguments are not affected.
  void set_result(const std::string& call, Code code);
  Code result_of(std::string_view call);

  // Returns how often a device's primary context is currently retained.
  int use_count(size_t device);
  void change_use_count(size_t device, int change);

  // In the functions below, `on` is the current device of the calling thread.
  Code allocate(size_t on, uint64_t& at, size_t bytes);
  Code free(size_t on, uint64_t at);
  Code open_shared(size_t on, const void* handle, uint64_t& at);
  Code share(size_t on, uint64_t at, void* handle);
  Code close_shared(size_t on, uint64_t at);

  Code reserve(size_t on, size_t bytes, size_t alignment, uint64_t hint, uint64_t& at);
  Code create(size_t on, size_t bytes, const CreateOptions& options, uint64_t& extent);
  Code release(uint64_t extent);
  Code map(size_t on, AddressRange range, uint64_t extent);
  Code set_access(size_t on, AddressRange range, size_t accessor, Access access);
  Code export_fd(uint64_t extent, int& fd);
  Code import_fd(size_t on, int fd, uint64_t& extent);
  Code export_fabric(uint64_t extent, void* handle);
  Code import_fabric(size_t on, const void* handle, uint64_t& extent);

  size_t multicast_granularity_bytes();
  Code create_multicast(const MulticastTable::ObjectOptions& wanted, uint64_t& object);
  Code add_to_multicast(uint64_t object, size_t device);
  Code bind_multicast(uint64_t object, uint64_t extent, size_t bytes);
  Code unbind_multicast(uint64_t object, size_t device, size_t bytes);
  Code unmap(size_t on, AddressRange range);
  // Returns whether a store to this address is lost because its extent is mapped twice and
  // AliasBehavior loses stores through this mapping.
  bool loses_store(uint64_t address);
  MulticastTable& multicasts() { return multicasts_; }
  size_t multicast_count() { return multicasts_.count(); }
  size_t extent_count();
  // Counts a launch of a multimem kernel.
  void count_multimem_launch() { multimem_count_.fetch_add(1, std::memory_order_relaxed); }
  size_t multimem_count() const { return multimem_count_.load(std::memory_order_relaxed); }

  Code enable_peer_access(size_t on, size_t peer);
  Code disable_peer_access(size_t on, size_t peer);

  Code create_stream(size_t on, int priority, uint64_t& stream);
  Code destroy_stream(uint64_t stream);
  // Returns the device that owns the stream. The default stream belongs to `on`.
  size_t device_of_stream(size_t on, uint64_t stream);
  bool is_stream(uint64_t stream);
  Code create_event(size_t on, bool timing, uint64_t& event);
  Code destroy_event(uint64_t event);
  size_t device_of_event(uint64_t event);
  Code call_host(size_t on, uint64_t stream, void (*function)(void*), void* argument);

  Code end_capture(size_t on, uint64_t stream, uint64_t& graph);
  Code capture_state(size_t on, uint64_t stream, CaptureState& state);
  Code node_dependencies(uint64_t node, std::vector<NodeId>& before);
  CallbackThread& callbacks() { return callbacks_; }
  Code make_object(void* user_data, void (*drop)(void*), uint64_t& object);
  Code release_object(uint64_t object);
  Code retain_object(uint64_t graph, uint64_t object);
  Code instantiate(uint64_t graph, uint64_t& exec);
  Code launch(size_t on, uint64_t exec, uint64_t stream);
  Code destroy_exec(uint64_t exec);
  Code destroy_graph(uint64_t graph);

 private:
  // A user object. When no graph, graph exec or queued launch refers to it any more, `callbacks`
  // destroys it.
  struct Object {
    explicit Object(CallbackThread& callback_thread) : callbacks(callback_thread) {}
    ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    CallbackThread& callbacks;
    void* user_data = nullptr;
    void (*drop)(void*) = nullptr;
  };
  using Objects = std::vector<std::shared_ptr<Object>>;
  struct Graph {
    size_t device = 0;
    bool is_destroyed = false;
    size_t exec_count = 0;
    std::shared_ptr<Objects> objects = std::make_shared<Objects>();
  };

  struct ExtentRecord {
    size_t device = 0;
    size_t bytes = 0;
    bool is_imported = false;
  };

  struct Mapping {
    uint64_t extent = 0;
    size_t bytes = 0;
    bool is_alias = false;  // the extent was already mapped at another address
  };

  void forget_all();
  bool is_mapped_locked(uint64_t extent) const;
  Code drop_graph_if_unused(uint64_t graph);
  void add_extent(uint64_t extent, const ExtentRecord& record);
  ExtentRecord extent_of(uint64_t extent);

  CallbackThread callbacks_;
  std::mutex mutex_;
  std::unique_ptr<sim::Machine> machine_;
  Features features_;
  std::map<size_t, int> use_counts_;
  std::map<std::pair<size_t, size_t>, bool> peers_;
  std::map<uint64_t, size_t> streams_;  // owning device, keyed by handle, as in events_
  std::map<uint64_t, size_t> events_;
  std::map<uint64_t, ExtentRecord> extents_;
  std::map<uint64_t, Mapping> mappings_;  // keyed by first address
  std::map<std::string, Code, std::less<>> results_;
  MulticastTable multicasts_;
  std::atomic<size_t> multimem_count_{0};
  std::map<uint64_t, Graph> graphs_;
  std::map<uint64_t, uint64_t> nodes_;        // graph, keyed by node
  std::map<uint64_t, uint64_t> graph_execs_;  // graph, keyed by graph exec
  std::map<uint64_t, std::shared_ptr<Object>> objects_;
  uint64_t last_id_ = 0;
};

// Exchanges the calling thread's capture mode.
CaptureMode exchange_mode(CaptureMode mode);

Code code_of(const Status& status);
template <typename T>
Code code_of(const Result<T>& result) {
  return code_of(result.status());
}

}  // namespace ashlar::standin
