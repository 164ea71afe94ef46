// SPDX-License-Identifier: Apache-2.0
//
// Implements the parts of GpuDevice for streams, events, work and captures.
// The file is long because these parts use the same checks.
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"
#include "device/relaxed_capture.h"

namespace ashlar::gpu {
namespace {

// A host function of the user. The driver passes a pointer to it to run_once or run_repeatedly.
struct HostCall {
  explicit HostCall(std::function<void()> host_function) : function(std::move(host_function)) {}
  std::function<void()> function;
};

// The callbacks are noexcept: an exception from the user's function must not propagate into the
// driver, so it terminates the process.
void run_once(void* user_data) noexcept {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(user_data));
  call->function();
}
void run_repeatedly(void* user_data) noexcept { static_cast<HostCall*>(user_data)->function(); }
template <typename T>
void delete_object(void* user_data) noexcept {
  const std::unique_ptr<T> object(static_cast<T*>(user_data));
}

}  // namespace

// --- streams

Result<StreamId> GpuDevice::create_stream(const StreamOptions& options) {
  return call([&]() -> Result<StreamId> {
    if (options.priority < 0 || options.priority > properties_.greatest_priority) {
      return Status::invalid_argument(text("a priority of ", options.priority, " (expected 0 to ",
                                           properties_.greatest_priority, ")"));
    }
    const std::optional<StreamId> again = streams_.reuse_retired(
        options.priority, [this](StreamId retired) { return is_stream_idle(retired); });
    if (again) return *again;
    StreamId stream;
    if (Status created = to_status(driver().create_stream(options.priority, stream));
        !created.ok()) {
      return created;
    }
    streams_.add(stream, options.priority);
    return stream;
  });
}

// Queries the stream in relaxed capture mode, so that captures stay valid. REQUIRES: the stream is
// not capturing.
bool GpuDevice::is_stream_idle(StreamId stream) {
  const RelaxedCapture relaxed(*this);
  return relaxed.status().ok() && driver().query_stream(stream).ok();
}

// Destroys a stream. Rejects streams that this device did not create. The driver's stream is kept
// for reuse; see stream_registry.h.
Status GpuDevice::destroy_stream(StreamId stream) {
  return call([&]() -> Status {
    const auto unknown_stream_error = [&] {
      return Status::invalid_argument(
          text("stream ", stream, " was not created by device ", index()));
    };
    if (!streams_.contains(stream)) return unknown_stream_error();
    const Result<CaptureInfo> info = capture_info(stream);
    if (!info.ok()) return info.status();
    if (info->status != CaptureStatus::kNone) {
      return Status::invalid_argument(
          text("stream ", stream, " is capturing; end the capture first"));
    }
    return streams_.retire(stream) ? Status() : unknown_stream_error();
  });
}

Status GpuDevice::check_stream(StreamId stream) const {
  if (!streams_.is_retired(stream)) return {};
  return Status::invalid_argument(text("stream ", stream, " was destroyed"));
}

Result<bool> GpuDevice::is_idle(StreamId stream) {
  return call_on_stream(stream, [&]() -> Result<bool> {
    const DriverResult queried = driver().query_stream(stream);
    if (queried.ok() || queried.code == kNotReady) return queried.ok();
    return to_status(queried);
  });
}

Status GpuDevice::synchronize_stream(StreamId stream) {
  return call_on_stream(stream, [&] { return to_status(driver().synchronize_stream(stream)); });
}

Status GpuDevice::synchronize_device() {
  return call([&] { return to_status(driver().synchronize_device()); });
}

// --- events

Result<EventId> GpuDevice::create_event(const EventOptions& options) {
  return call([&]() -> Result<EventId> {
    Handle event = 0;
    if (Status created = to_status(driver().create_event(options.timing, event)); !created.ok())
      return created;
    ScopeGuard undo([&] { (void)driver().destroy_event(event); });
    const EventId id = backend_.events.add(index(), event);
    undo.dismiss();
    return id;
  });
}

Status GpuDevice::destroy_event(EventId event) {
  return call([&]() -> Status {
    // Removed before the driver destroys the event, because another thread may then get the handle.
    Result<EventRegistry::Removed> removed = backend_.events.remove(event, index());
    if (!removed.ok()) return removed.status();
    Status destroyed = to_status(driver().destroy_event(removed->handle()));
    if (!destroyed.ok()) backend_.events.restore(*std::move(removed));
    return destroyed;
  });
}

Status GpuDevice::record_event(EventId event, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    const Result<Handle> handle = backend_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    return to_status(driver().record_event(*handle, stream));
  });
}

Result<bool> GpuDevice::is_done(EventId event) {
  return call([&]() -> Result<bool> {
    const Result<Handle> handle = backend_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    const DriverResult queried = driver().query_event(*handle);
    if (queried.ok() || queried.code == kNotReady) return queried.ok();
    return to_status(queried);
  });
}

Status GpuDevice::synchronize_event(EventId event) {
  return call([&]() -> Status {
    const Result<Handle> handle = backend_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    return to_status(driver().synchronize_event(*handle));
  });
}

Status GpuDevice::wait_event(StreamId stream, EventId event) {
  return call_on_stream(stream, [&]() -> Status {
    const Result<Handle> handle = backend_.events.find(event);
    if (!handle.ok()) return handle.status();
    return to_status(driver().wait_event(stream, *handle));
  });
}

Result<double> GpuDevice::elapsed_ms(EventId begin, EventId end) {
  return call([&]() -> Result<double> {
    const Result<Handle> first = backend_.events.find(begin, index());
    if (!first.ok()) return first.status();
    const Result<Handle> last = backend_.events.find(end, index());
    if (!last.ok()) return last.status();
    float elapsed = 0;
    const DriverResult queried = driver().elapsed_ms(*first, *last, elapsed);
    if (queried.code == kNotReady)
      return Status::invalid_argument("cannot measure time: an event is not done");
    if (!queried.ok()) return to_status(queried);
    return double{elapsed};
  });
}

// --- work

// If the registry does not have the range, queries the driver, because other code in the process
// may have allocated it.
Status GpuDevice::check_memory(DeviceIndex accessor, AddressRange range, Access wanted) {
  if (std::optional<Status> known = backend_.addresses.check(accessor, range, wanted))
    return *known;
  AddressInfo found;
  if (Status queried = to_status(driver().query_address(range.begin, found)); !queried.ok())
    return queried;
  if (found.kind == MemoryKind::kDevice && found.range.contains(range)) return {};
  return Status::invalid_argument(text("no device memory at ", range));
}

Status GpuDevice::check_host_pointer(const void* memory) const {
  if (memory == nullptr) return Status::invalid_argument("the host pointer is null");
  const DeviceAddress at(reinterpret_cast<uint64_t>(memory));
  if (!backend_.addresses.describe(at)) return {};
  return Status::invalid_argument(text(at, " is a device address where host memory was expected"));
}

Status GpuDevice::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                 StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status ok = check_host_pointer(from); !ok.ok()) return ok;
    if (Status ok = check_memory({to, bytes}, Access::kReadWrite); !ok.ok()) return ok;
    return to_status(driver().copy_to_device(to, from, bytes, stream));
  });
}

Status GpuDevice::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status ok = check_host_pointer(to); !ok.ok()) return ok;
    if (Status ok = check_memory({from, bytes}, Access::kRead); !ok.ok()) return ok;
    return to_status(driver().copy_to_host(to, from, bytes, stream));
  });
}

Status GpuDevice::check_transfer(DeviceIndex to_accessor, DeviceAddress to, DeviceAddress from,
                                 size_t bytes) {
  Status target = check_memory(to_accessor, {to, bytes}, Access::kReadWrite);
  if (!target.ok()) return target;
  if (Status source = check_memory({from, bytes}, Access::kRead); !source.ok()) return source;
  if (to < from + bytes && from < to + bytes) {
    return Status::invalid_argument(text("the ranges ", AddressRange{to, bytes}, " and ",
                                         AddressRange{from, bytes}, " overlap"));
  }
  return {};
}

Status GpuDevice::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status ok = check_transfer(index(), to, from, bytes); !ok.ok()) return ok;
    return to_status(driver().copy(to, from, bytes, stream));
  });
}

Status GpuDevice::copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                               StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (Status usable = backend_.devices[peer.value()]->ensure_open(); !usable.ok()) return usable;
    if (Status ok = check_transfer(peer, to, from, bytes); !ok.ok()) return ok;
    const Driver::PeerCopy request{static_cast<int>(peer.value()), to, ordinal(), from, bytes};
    return to_status(driver().copy_to_peer(request, stream));
  });
}

Status GpuDevice::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status ok = check_memory({at, bytes}, Access::kReadWrite); !ok.ok()) return ok;
    return to_status(driver().fill(at, value, bytes, stream));
  });
}

Status GpuDevice::call_host(StreamId stream, std::function<void()> function) {
  return call_on_stream(stream, [&]() -> Status {
    if (!function) return Status::invalid_argument("the host function is empty");
    const Result<CaptureInfo> info = capture_info(stream);
    if (!info.ok()) return info.status();
    if (info->status == CaptureStatus::kActive) {
      return call_host_in_capture(stream, info->graph, std::move(function));
    }
    auto user_data = std::make_unique<HostCall>(std::move(function));
    Status queued = to_status(driver().call_host(stream, run_once, user_data.get()));
    if (queued.ok()) (void)user_data.release();  // run_once owns it now
    return queued;
  });
}

// The function must exist until the graph is destroyed and its last launch has finished, which only
// the driver can detect. Therefore the graph owns the function as a user object.
Status GpuDevice::call_host_in_capture(StreamId stream, Handle graph,
                                       std::function<void()> function) {
  HostCall* user_data = std::make_unique<HostCall>(std::move(function)).release();
  Status kept = to_status(driver().attach_user_object(graph, {user_data, delete_object<HostCall>}));
  return kept.ok() ? to_status(driver().call_host(stream, run_repeatedly, user_data)) : kept;
}

// --- capture

// While a stream captures, a driver may refuse to query the default stream. The default stream
// never captures, so kNone is returned for it in this case.
Result<CaptureInfo> GpuDevice::capture_info(StreamId stream) {
  CaptureInfo info;
  const DriverResult queried = driver().capture_info(stream, info);
  if (stream == kDefaultStream && queried.code == kCaptureImplicit) return CaptureInfo{};
  if (!queried.ok()) return to_status(queried);
  graphs_.update_capture(stream, info);
  return info;
}

Status GpuDevice::check_not_capturing(StreamId stream, const char* action) {
  const Result<CaptureInfo> info = capture_info(stream);
  if (!info.ok()) return info.status();
  if (info->status == CaptureStatus::kNone) return {};
  return Status::unsupported(text(action, " in a capturing stream"));
}

Status GpuDevice::begin_capture(StreamId stream, CaptureMode mode) {
  return call_on_stream(stream, [&]() -> Status {
    if (stream == kDefaultStream) {
      return Status::unsupported("the default stream cannot capture; make a stream for it");
    }
    return to_status(driver().begin_capture(stream, mode));
  });
}

Result<GraphId> GpuDevice::end_capture(StreamId stream) {
  return call_on_stream(stream, [&]() -> Result<GraphId> {
    const Result<CaptureInfo> before = capture_info(stream);
    if (!before.ok()) return before.status();
    Handle graph = 0;
    if (Status ended = to_status(driver().end_capture(stream, graph)); !ended.ok()) {
      const Result<CaptureInfo> after = capture_info(stream);
      const bool has_ended = after.ok() && after->status == CaptureStatus::kNone;
      if (has_ended && before->graph != 0) graphs_.remove_nodes(GraphId(before->graph));
      return ended;
    }
    graphs_.add(GraphId(graph));
    return GraphId(graph);
  });
}

Result<CaptureState> GpuDevice::capture_state(StreamId stream) {
  return call_on_stream(stream, [&]() -> Result<CaptureState> {
    Result<CaptureInfo> info = capture_info(stream);
    if (!info.ok()) return info.status();
    if (info->status == CaptureStatus::kNone) return CaptureState{};
    return CaptureState{info->status, CaptureId(info->id), GraphId(info->graph),
                        std::move(info->tail)};
  });
}

Status GpuDevice::retain_in_graph(StreamId stream, std::shared_ptr<const void> object) {
  return call_on_stream(stream, [&]() -> Status {
    const Result<CaptureInfo> info = capture_info(stream);
    if (!info.ok()) return info.status();
    if (info->status != CaptureStatus::kActive) {
      return Status::invalid_argument(text("stream ", stream, " has no valid capture"));
    }
    using Ticket = GraphObjectReleaser::Ticket;
    const auto attach = [&](std::unique_ptr<Ticket> ticket) {
      return to_status(
          driver().attach_user_object(info->graph, {ticket.release(), delete_object<Ticket>}));
    };
    return graph_objects_.retain(CaptureId(info->id), std::move(object), attach);
  });
}

Result<std::vector<NodeId>> GpuDevice::node_dependencies(NodeId node) {
  return call([&]() -> Result<std::vector<NodeId>> {
    if (Status known = graphs_.check_node(node); !known.ok()) return known;
    std::vector<NodeId> dependencies;
    if (Status queried = to_status(driver().node_dependencies(node, dependencies)); !queried.ok())
      return queried;
    graphs_.add_nodes(node, dependencies);
    return dependencies;
  });
}

Result<CaptureMode> GpuDevice::exchange_capture_mode(CaptureMode mode) {
  return call([&]() -> Result<CaptureMode> {
    CaptureMode exchanged = mode;
    if (Status done = to_status(driver().exchange_capture_mode(exchanged)); !done.ok()) {
      return done;
    }
    return exchanged;
  });
}

// --- graphs

void GpuDevice::find_foreign_graph(GraphId graph) {
  const std::optional<StreamId> stream = graphs_.capturing_stream(graph);
  if (stream) (void)capture_info(*stream).ok();  // updates the registry
}

Status GpuDevice::launch_graph(GraphId id, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    find_foreign_graph(id);
    const Result<std::shared_ptr<CapturedGraph>> graph = graphs_.find(id);
    if (!graph.ok()) return graph.status();
    MutexLock lock((*graph)->mutex);
    Handle& exec = (*graph)->exec;
    if (exec == 0) {
      Status created = to_status(driver().instantiate_graph(id.value(), exec));
      if (!created.ok()) return created;
    }
    return to_status(driver().launch_graph(exec, stream));
  });
}

Status GpuDevice::destroy_graph(GraphId id) {
  return call([&]() -> Status {
    find_foreign_graph(id);
    // Removed before the driver destroys the graph, because a new capture may then get the handle.
    Result<GraphRegistry::Removed> removed = graphs_.remove(id);
    if (!removed.ok()) return removed.status();
    Status destroyed = destroy_captured(id, removed->graph());
    if (!destroyed.ok()) graphs_.restore(*std::move(removed));
    return destroyed;
  });
}

// After a failure, another call continues with the step that failed.
Status GpuDevice::destroy_captured(GraphId id, CapturedGraph& graph) {
  MutexLock lock(graph.mutex);
  if (graph.exec != 0) {
    Status destroyed = to_status(driver().destroy_graph_exec(graph.exec));
    if (!destroyed.ok()) return destroyed;
    graph.exec = 0;
  }
  return to_status(driver().destroy_graph(id.value()));
}

}  // namespace ashlar::gpu
