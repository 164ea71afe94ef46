// A driver's calls over the simulated machine.
#include "standin/core.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/sim/parts.h"

namespace ashlar::standin {
namespace {

[[noreturn]] void end_process(const char* what, uint64_t handle) {
  std::fprintf(stderr, "stand-in driver: no such %s: %llu\n", what,
               static_cast<unsigned long long>(handle));
  std::abort();
}

template <typename Map>
typename Map::mapped_type& must_have(Map& map, const char* what, uint64_t handle) {
  const auto found = map.find(handle);
  if (found == map.end()) end_process(what, handle);
  return found->second;
}

}  // namespace

CaptureMode exchange_mode(CaptureMode mode) { return sim::Captures::exchange_thread_mode(mode); }

Code code_of(const Status& status) {
  switch (status.kind()) {
    case StatusKind::kOk: return kDone;
    case StatusKind::kOutOfMemory: return kNoMemory;
    case StatusKind::kUsage:
    case StatusKind::kFormat: return kInvalidValue;
    case StatusKind::kUnsupported: return kNotSupported;
    case StatusKind::kDeviceFault: return kUnknown;
    case StatusKind::kDeviceLost: return kLost;
  }
  return kUnknown;
}

// Never destroyed: a driver is there until the process is not.
Core& Core::get() {
  static Core* const core = std::make_unique<Core>().release();
  return *core;
}

void Core::restart(const sim::Options& options, const Abilities& abilities) {
  const std::lock_guard lock(mutex_);
  machine_.reset();
  abilities_ = abilities;
  use_counts_.clear();
  peers_.clear();
  streams_.clear();
  events_.clear();
  extents_.clear();
  mapped_at_.clear();
  graphs_.clear();
  nodes_.clear();
  launchables_.clear();
  objects_.clear();
  Result<std::unique_ptr<sim::Machine>> made = sim::Machine::create(options);
  if (!made.ok()) end_process("machine", 0);
  machine_ = *std::move(made);
}

sim::Machine& Core::machine() {
  {
    const std::lock_guard lock(mutex_);
    if (machine_ != nullptr) return *machine_;
  }
  sim::Options options;
  options.capacity_bytes = size_t{1} << 30;
  restart(options, {});
  return *machine_;
}

int Core::use_count(size_t device) {
  const std::lock_guard lock(mutex_);
  return use_counts_[device];
}

void Core::use(size_t device, int change) {
  const std::lock_guard lock(mutex_);
  use_counts_[device] += change;
}

// --- memory -------------------------------------------------------------------------------------

Code Core::allocate(size_t on, uint64_t& at, size_t bytes) {
  const Result<DeviceAddress> made = device(on).allocate(bytes);
  if (made.ok()) at = made->value();
  return code_of(made);
}

Code Core::free(size_t on, uint64_t at) { return code_of(device(on).free(DeviceAddress(at))); }

Code Core::share(size_t on, uint64_t at, void* handle) {
  if (!abilities_.share) return kNotSupported;
  const Result<AllocationHandle> shared = device(on).share_allocation(DeviceAddress(at));
  if (shared.ok()) std::memcpy(handle, shared->data(), shared->size());
  return code_of(shared);
}

Code Core::open_shared(size_t on, const void* handle, uint64_t& at) {
  AllocationHandle wanted{};
  std::memcpy(wanted.data(), handle, wanted.size());
  const Result<DeviceAddress> opened = device(on).open_allocation(wanted);
  if (opened.ok()) at = opened->value();
  return code_of(opened);
}

Code Core::close_shared(size_t on, uint64_t at) {
  return code_of(device(on).close_allocation(DeviceAddress(at)));
}

Code Core::reserve(size_t on, size_t bytes, size_t alignment, uint64_t hint, uint64_t& at) {
  if (!abilities_.virtual_memory) return kNotSupported;
  const size_t granularity = device(on).properties().granularity_bytes;
  if (!abilities_.alignment && alignment > granularity) return kNotSupported;
  const Result<DeviceAddress> made =
      device(on).reserve(bytes, {.alignment_bytes = alignment, .hint = DeviceAddress(hint)});
  if (made.ok()) at = made->value();
  return code_of(made);
}

Code Core::create(size_t on, size_t bytes, const CreateOptions& options, uint64_t& extent) {
  if (!abilities_.virtual_memory || (options.export_fd && !abilities_.fd)) return kNotSupported;
  // As where the service behind fabric handles is not running.
  if (options.export_fabric && !abilities_.fabric) return kNotPermitted;
  const Result<ExtentId> made = device(on).create(bytes, options);
  if (!made.ok()) return code_of(made);
  extent = made->value();
  const std::lock_guard lock(mutex_);
  extents_[extent] = {on, bytes};
  return kDone;
}

Code Core::release(uint64_t extent) {
  size_t owner = 0;
  {
    const std::lock_guard lock(mutex_);
    owner = must_have(extents_, "extent", extent).first;
  }
  const Code released = code_of(device(owner).release(ExtentId(extent)));
  if (released != kDone) return released;
  const std::lock_guard lock(mutex_);
  extents_.erase(extent);
  return kDone;
}

Code Core::map(size_t on, AddressRange range, uint64_t extent) {
  {
    const std::lock_guard lock(mutex_);
    if (must_have(extents_, "extent", extent).second != range.bytes) return kNotSupported;
  }
  if (!abilities_.alias) {
    // One mapping at a time, as with drivers that remember one address for each extent.
    const auto& own = machine().parts().addresses;
    const std::lock_guard lock(mutex_);
    const auto before = mapped_at_.find(extent);
    if (before != mapped_at_.end() &&
        own.describe(DeviceAddress(before->second)).kind != MemoryKind::kUnknown) {
      return kInvalidValue;
    }
    mapped_at_[extent] = range.begin.value();
  }
  return code_of(device(on).map(range.begin, ExtentId(extent)));
}

Code Core::set_access(size_t on, AddressRange range, size_t accessor, Access access) {
  if (access == Access::kRead && !abilities_.read_only) return kInvalidValue;
  return code_of(device(on).set_access(range, DeviceIndex(accessor), access));
}

Code Core::export_fd(uint64_t extent, int& fd) {
  size_t owner = 0;
  {
    const std::lock_guard lock(mutex_);
    owner = must_have(extents_, "extent", extent).first;
  }
  Result<UniqueFd> made = device(owner).export_fd(ExtentId(extent));
  if (made.ok()) fd = made->release();
  return code_of(made);
}

// A driver is not told the size, and knows it.
Code Core::import_fd(size_t on, int fd, uint64_t& extent) {
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_size <= 0) return kUnknown;
  const auto bytes = static_cast<size_t>(file.st_size);
  const Result<ExtentId> made = device(on).import_fd(fd, bytes);
  if (made.status().is(StatusKind::kUsage)) return kUnknown;
  if (!made.ok()) return code_of(made);
  extent = made->value();
  const std::lock_guard lock(mutex_);
  extents_[extent] = {on, bytes};
  return kDone;
}

Code Core::export_fabric(uint64_t extent, void* handle) {
  size_t owner = 0;
  {
    const std::lock_guard lock(mutex_);
    owner = must_have(extents_, "extent", extent).first;
  }
  const Result<FabricHandle> made = device(owner).export_fabric(ExtentId(extent));
  if (made.ok()) std::memcpy(handle, made->data(), made->size());
  return code_of(made);
}

Code Core::import_fabric(size_t on, const void* handle, uint64_t& extent) {
  FabricHandle wanted{};
  std::memcpy(wanted.data(), handle, wanted.size());
  const Result<std::shared_ptr<sim::Extent>> known =
      machine().parts().fabric.import_extent(wanted, sim::HandleKind::kExtent);
  if (!known.ok()) return code_of(known);
  const size_t bytes = (*known)->bytes();
  const Result<ExtentId> made = device(on).import_fabric(wanted, bytes);
  if (!made.ok()) return code_of(made);
  extent = made->value();
  const std::lock_guard lock(mutex_);
  extents_[extent] = {on, bytes};
  return kDone;
}

// Doing it twice is an error for a driver, if a harmless one.
Code Core::enable_peer_access(size_t on, size_t peer) {
  const Code enabled = code_of(device(on).enable_peer_access(DeviceIndex(peer)));
  if (enabled != kDone) return enabled;
  const std::lock_guard lock(mutex_);
  return std::exchange(peers_[{on, peer}], true) ? kPeerAlready : kDone;
}

Code Core::disable_peer_access(size_t on, size_t peer) {
  const Code disabled = code_of(device(on).disable_peer_access(DeviceIndex(peer)));
  if (disabled != kDone) return disabled;
  const std::lock_guard lock(mutex_);
  return std::exchange(peers_[{on, peer}], false) ? kDone : kPeerNot;
}

// --- streams and events -------------------------------------------------------------------------

Code Core::create_stream(size_t on, int priority, uint64_t& stream) {
  const Result<StreamId> made = device(on).create_stream({.priority = priority});
  if (!made.ok()) return code_of(made);
  stream = made->value();
  const std::lock_guard lock(mutex_);
  streams_[stream] = on;
  return kDone;
}

Code Core::destroy_stream(uint64_t stream) {
  const Code destroyed =
      code_of(device(device_of_stream(0, stream)).destroy_stream(StreamId(stream)));
  if (destroyed != kDone) return destroyed;
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  return kDone;
}

bool Core::is_stream(uint64_t stream) {
  const std::lock_guard lock(mutex_);
  return stream == 0 || streams_.contains(stream);
}

size_t Core::device_of_stream(size_t on, uint64_t stream) {
  if (stream == 0) return on;
  const std::lock_guard lock(mutex_);
  return must_have(streams_, "stream", stream);
}

Code Core::create_event(size_t on, bool timing, uint64_t& event) {
  const Result<EventId> made = device(on).create_event({.timing = timing});
  if (!made.ok()) return code_of(made);
  event = made->value();
  const std::lock_guard lock(mutex_);
  events_[event] = on;
  return kDone;
}

size_t Core::device_of_event(uint64_t event) {
  const std::lock_guard lock(mutex_);
  return must_have(events_, "event", event);
}

Code Core::destroy_event(uint64_t event) {
  const Code destroyed = code_of(device(device_of_event(event)).destroy_event(EventId(event)));
  if (destroyed != kDone) return destroyed;
  const std::lock_guard lock(mutex_);
  events_.erase(event);
  return kDone;
}

Code Core::call_host(size_t on, uint64_t stream, void (*function)(void*), void* argument) {
  Device& owner = device(device_of_stream(on, stream));
  const Result<CaptureState> state = owner.capture_state(StreamId(stream));
  std::shared_ptr<Objects> objects;
  if (state.ok() && state->status == CaptureStatus::kActive) {
    const std::lock_guard lock(mutex_);
    objects = graphs_[state->graph.value()].objects;
  }
  return code_of(
      owner.call_host(StreamId(stream), [function, argument, objects] { function(argument); }));
}

// --- graphs -------------------------------------------------------------------------------------

Code Core::capture_state(size_t on, uint64_t stream, CaptureState& state) {
  const size_t owner = device_of_stream(on, stream);
  Result<CaptureState> found = device(owner).capture_state(StreamId(stream));
  if (!found.ok()) return code_of(found);
  state = *std::move(found);
  if (state.status == CaptureStatus::kNone) return kDone;
  const std::lock_guard lock(mutex_);
  graphs_[state.graph.value()].device = owner;
  for (const NodeId node : state.tail) nodes_[node.value()] = state.graph.value();
  return kDone;
}

Code Core::end_capture(size_t on, uint64_t stream, uint64_t& graph) {
  CaptureState before;
  if (const Code asked = capture_state(on, stream, before); asked != kDone) return asked;
  const size_t owner = device_of_stream(on, stream);
  const Result<GraphId> ended = device(owner).end_capture(StreamId(stream));
  const Result<CaptureState> after = device(owner).capture_state(StreamId(stream));
  const bool is_over = after.ok() && after->status == CaptureStatus::kNone;
  const std::lock_guard lock(mutex_);
  if (!ended.ok()) {
    if (is_over && before.status != CaptureStatus::kNone) graphs_.erase(before.graph.value());
    return code_of(ended);
  }
  graph = ended->value();
  graphs_[graph].device = owner;
  return kDone;
}

Code Core::node_dependencies(uint64_t node, std::vector<NodeId>& before) {
  size_t owner = 0;
  {
    const std::lock_guard lock(mutex_);
    owner = must_have(graphs_, "graph", must_have(nodes_, "node", node)).device;
  }
  Result<std::vector<NodeId>> found = device(owner).node_dependencies(NodeId(node));
  if (!found.ok()) return code_of(found);
  before = *std::move(found);
  const std::lock_guard lock(mutex_);
  for (const NodeId each : before) nodes_[each.value()] = nodes_[node];
  return kDone;
}

Core::Object::~Object() {
  if (drop != nullptr) drop(thing);
}

Code Core::make_object(void* thing, void (*drop)(void*), uint64_t& object) {
  auto made = std::make_shared<Object>();
  made->thing = thing;
  made->drop = drop;
  const std::lock_guard lock(mutex_);
  object = ++last_id_;
  objects_[object] = std::move(made);
  return kDone;
}

Code Core::release_object(uint64_t object) {
  std::shared_ptr<Object> last;
  const std::lock_guard lock(mutex_);
  last = must_have(objects_, "object", object);
  objects_.erase(object);
  return kDone;
}

Code Core::retain_object(uint64_t graph, uint64_t object) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Object> moved = must_have(objects_, "object", object);
  must_have(graphs_, "graph", graph).objects->push_back(moved);
  objects_.erase(object);
  return kDone;
}

Code Core::instantiate(uint64_t graph, uint64_t& launchable) {
  const std::lock_guard lock(mutex_);
  ++must_have(graphs_, "graph", graph).launchable_count;
  launchable = ++last_id_;
  launchables_[launchable] = graph;
  return kDone;
}

Code Core::launch(size_t on, uint64_t launchable, uint64_t stream) {
  uint64_t graph = 0;
  {
    const std::lock_guard lock(mutex_);
    graph = must_have(launchables_, "launchable graph", launchable);
  }
  Device& owner = device(device_of_stream(on, stream));
  return code_of(owner.launch_graph(GraphId(graph), StreamId(stream)));
}

Code Core::destroy_launchable(uint64_t launchable) {
  uint64_t graph = 0;
  {
    const std::lock_guard lock(mutex_);
    graph = must_have(launchables_, "launchable graph", launchable);
    launchables_.erase(launchable);
    --graphs_[graph].launchable_count;
  }
  return drop_graph_if_unused(graph);
}

Code Core::destroy_graph(uint64_t graph) {
  {
    const std::lock_guard lock(mutex_);
    must_have(graphs_, "graph", graph).is_destroyed = true;
  }
  return drop_graph_if_unused(graph);
}

// The simulated graph serves its launchable forms too, so it goes when neither is left.
Code Core::drop_graph_if_unused(uint64_t graph) {
  Graph dropped;  // let go after unlocking: dropping objects calls whoever made them
  {
    const std::lock_guard lock(mutex_);
    Graph& found = must_have(graphs_, "graph", graph);
    if (!found.is_destroyed || found.launchable_count != 0) return kDone;
    dropped = std::move(found);
    graphs_.erase(graph);
    std::erase_if(nodes_, [&](const auto& node) { return node.second == graph; });
  }
  return code_of(device(dropped.device).destroy_graph(GraphId(graph)));
}

}  // namespace ashlar::standin
