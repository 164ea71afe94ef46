// SPDX-License-Identifier: Apache-2.0
//
// What the stand-in drivers are made of: the calls of a GPU driver, by the numbers and habits that
// NVIDIA's and AMD's have in common, over a simulated machine. shared_*.cc, cuda.cc and hip.cc give
// them the vendors' names.
//
// Handles are looked up as carelessly as a driver does: one that was never given out ends the
// process, so that a back end that lets one through does not go unnoticed. Thread safe.
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
inline constexpr Code kPeerAlready = 704;
inline constexpr Code kPeerNot = 705;
inline constexpr Code kNotPermitted = 800;
inline constexpr Code kNotSupported = 801;
inline constexpr Code kSystemNotReady = 802;
inline constexpr Code kUnknown = 999;

// What the devices can do; a test takes something away before they are used.
struct Abilities {
  bool virtual_memory = true;
  bool alias = true;
  bool fd = true;
  bool fabric = true;
  bool both = true;  // descriptors and fabric handles, of one extent
  bool share = true;
  bool pools = true;
  bool alignment = true;  // of reservations, beyond the granularity
  bool read_only = true;  // as a kind of access
  bool multicast = true;
  size_t multicast_granules = 1;  // of its granularity
};

class Core {
 public:
  // The one of this library, with a machine of two small devices unless a test asked for another.
  static Core& get();

  // A new machine, and no memory of the last. REQUIRES: nobody uses the last one any more.
  void restart(const sim::Options& options, const Abilities& abilities);
  sim::Machine& machine();
  const Abilities& abilities() const { return abilities_; }
  size_t device_count() { return machine().device_count(); }
  Device& device(size_t index) { return machine().device(DeviceIndex(index)); }

  // Calls by that name fail with that code, until they are told to succeed (kDone). Those that take
  // extents as well do so for multicast objects alone, and for fabric handles.
  void tell(const std::string& call, Code code);
  Code told(std::string_view call);

  // Uses of a device's context that were not ended yet.
  int use_count(size_t device);
  void use(size_t device, int change);

  // `on` is the device that the thread is in.
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
  Code create_multicast(const Multicasts::Wanted& wanted, uint64_t& object);
  Code add_to_multicast(uint64_t object, size_t device);
  Code bind_multicast(uint64_t object, uint64_t extent, size_t bytes);
  Code unbind_multicast(uint64_t object, size_t device, size_t bytes);
  Code unmap(size_t on, AddressRange range);
  Multicasts& multicasts() { return multicasts_; }
  size_t multicast_count() { return multicasts_.count(); }
  size_t extent_count();
  // Kernels launched that go through multicast.
  void note_multimem() { multimem_count_.fetch_add(1, std::memory_order_relaxed); }
  size_t multimem_count() const { return multimem_count_.load(std::memory_order_relaxed); }

  Code enable_peer_access(size_t on, size_t peer);
  Code disable_peer_access(size_t on, size_t peer);

  Code create_stream(size_t on, int priority, uint64_t& stream);
  Code destroy_stream(uint64_t stream);
  // Whose it is; the default stream is that of `on`.
  size_t device_of_stream(size_t on, uint64_t stream);
  bool is_stream(uint64_t stream);
  Code create_event(size_t on, bool timing, uint64_t& event);
  Code destroy_event(uint64_t event);
  size_t device_of_event(uint64_t event);
  Code call_host(size_t on, uint64_t stream, void (*function)(void*), void* argument);

  Code end_capture(size_t on, uint64_t stream, uint64_t& graph);
  Code capture_state(size_t on, uint64_t stream, CaptureState& state);
  Code node_dependencies(uint64_t node, std::vector<NodeId>& before);
  Code make_object(void* thing, void (*drop)(void*), uint64_t& object);
  Code release_object(uint64_t object);
  Code retain_object(uint64_t graph, uint64_t object);
  Code instantiate(uint64_t graph, uint64_t& launchable);
  Code launch(size_t on, uint64_t launchable, uint64_t stream);
  Code destroy_launchable(uint64_t launchable);
  Code destroy_graph(uint64_t graph);

 private:
  // Dropped with the last graph, launchable and queued launch that needs it.
  struct Object {
    ~Object();
    void* thing = nullptr;
    void (*drop)(void*) = nullptr;
  };
  using Objects = std::vector<std::shared_ptr<Object>>;
  struct Graph {
    size_t device = 0;
    bool is_destroyed = false;
    size_t launchable_count = 0;
    std::shared_ptr<Objects> objects = std::make_shared<Objects>();
  };

  struct Extent {
    size_t device = 0;
    size_t bytes = 0;
    bool is_imported = false;
  };

  Code drop_graph_if_unused(uint64_t graph);
  void keep_extent(uint64_t extent, const Extent& facts);
  Extent extent_of(uint64_t extent);

  std::mutex mutex_;
  std::unique_ptr<sim::Machine> machine_;
  Abilities abilities_;
  std::map<size_t, int> use_counts_;
  std::map<std::pair<size_t, size_t>, bool> peers_;
  std::map<uint64_t, size_t> streams_;  // these two by handle: whose it is
  std::map<uint64_t, size_t> events_;
  std::map<uint64_t, Extent> extents_;
  std::map<uint64_t, uint64_t> mapped_at_;  // where each was last
  std::map<std::string, Code, std::less<>> told_;
  Multicasts multicasts_;
  std::atomic<size_t> multimem_count_{0};
  std::map<uint64_t, Graph> graphs_;
  std::map<uint64_t, uint64_t> nodes_;        // by node: its graph
  std::map<uint64_t, uint64_t> launchables_;  // by launchable: its graph
  std::map<uint64_t, std::shared_ptr<Object>> objects_;
  uint64_t last_id_ = 0;
};

// The calling thread's mode: no device's business.
CaptureMode exchange_mode(CaptureMode mode);

Code code_of(const Status& status);
template <typename T>
Code code_of(const Result<T>& result) {
  return code_of(result.status());
}

}  // namespace ashlar::standin
