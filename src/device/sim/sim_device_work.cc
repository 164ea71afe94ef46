// SPDX-License-Identifier: Apache-2.0
//
// Implements the work of a simulated device: streams, events, copies, host calls, captures and
// graphs. The file is long because it has one short function for each call of the contract.
#include <exception>
#include <new>

#include "base/host_memory.h"
#include "base/text.h"
#include "device/sim/sim_device.h"

namespace ashlar::sim {
namespace {

Status describe_exception(const std::exception& thrown) noexcept {
  return without_bad_alloc(
      [&] { return Status::device_fault("work", 0, text("it threw \"", thrown.what(), "\"")); });
}

// Runs `work` and turns an exception into a status. `work` may be user code, and usually runs on a
// worker thread, where an exception would terminate the process.
Status run_guarded(const std::function<Status()>& work) noexcept {
  try {
    return work();
  } catch (const std::exception& thrown) {
    return describe_exception(thrown);
  } catch (...) {
    return without_bad_alloc(
        [] { return Status::device_fault("work", 0, "it threw an unknown exception"); });
  }
}

}  // namespace

// If host memory is exhausted, the tasks run in a later call.
void SimDevice::run_random_tasks() noexcept {
  Scheduler* scheduler = machine_.streams.scheduler();
  if (scheduler == nullptr) return;
  try {
    scheduler->run_random_tasks();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

// --- streams

Result<StreamId> SimDevice::create_stream(const StreamOptions& options) {
  return call(DeviceCall::kCreateStream, [&](CallSize&) -> Result<StreamId> {
    if (options.priority < 0 || options.priority > properties_.greatest_priority) {
      return Status::invalid_argument(text("a priority of ", options.priority, " (expected 0 to ",
                                           properties_.greatest_priority, ")"));
    }
    return machine_.streams.create(index(), options.priority);
  });
}

Status SimDevice::destroy_stream(StreamId id) {
  return call(DeviceCall::kDestroyStream, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (machine_.captures.is_capturing(**stream)) {
      return Status::invalid_argument(text("stream ", id, " is capturing; end the capture first"));
    }
    return machine_.streams.destroy(index(), id);
  });
}

Result<bool> SimDevice::is_idle(StreamId id) {
  return call(DeviceCall::kIsIdle, [&](CallSize&) -> Result<bool> {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (Status ok = machine_.captures.check_query(**stream, "is_idle"); !ok.ok()) return ok;
    if (Status ok = machine_.captures.check_unsafe_call("is_idle"); !ok.ok()) return ok;
    const bool idle = (*stream)->is_idle();
    if (Status usable = check_not_lost(); !usable.ok()) return usable;
    return idle;
  });
}

Status SimDevice::synchronize_stream(StreamId id) {
  return call(DeviceCall::kSynchronizeStream, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (Status ok = machine_.captures.check_query(**stream, "synchronize_stream"); !ok.ok())
      return ok;
    if (Status ok = machine_.captures.check_unsafe_call("synchronize_stream"); !ok.ok()) return ok;
    return wait_for(*(*stream)->mark());
  });
}

Status SimDevice::synchronize_device() {
  return call(DeviceCall::kSynchronizeDevice, [&](CallSize&) -> Status {
    if (Status ok = machine_.captures.check_unsafe_call("synchronize_device"); !ok.ok()) return ok;
    std::vector<std::shared_ptr<Completion>> marks;
    for (const auto& stream : machine_.streams.streams_of(index())) {
      Status ok = machine_.captures.check_query(*stream, "synchronize_device");
      if (!ok.ok()) return ok;
      marks.push_back(stream->mark());
    }
    for (const auto& mark : marks) {
      if (Status done = wait_for(*mark); !done.ok()) return done;
    }
    return {};
  });
}

Status SimDevice::wait_for(const Completion& completion) {
  if (Status waited = machine_.streams.wait(completion); !waited.ok()) return waited;
  pool_.trim_to_threshold();
  return check_not_lost();
}

// --- events

Result<EventId> SimDevice::create_event(const EventOptions& options) {
  return call(DeviceCall::kCreateEvent, [&](CallSize&) -> Result<EventId> {
    return machine_.events.create(index(), options);
  });
}

Status SimDevice::destroy_event(EventId event) {
  return call(DeviceCall::kDestroyEvent,
              [&](CallSize&) { return machine_.events.destroy(index(), event); });
}

Status SimDevice::record_event(EventId event_id, StreamId stream_id) {
  return call(DeviceCall::kRecordEvent, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), stream_id);
    if (!stream.ok()) return stream.status();
    Result<SimEvent> event = machine_.events.find(index(), event_id);
    if (!event.ok()) return event.status();
    if (!machine_.captures.is_capturing(**stream)) {
      return machine_.events.record(event_id, (*stream)->mark());
    }
    Result<CapturedEvent> mark = machine_.captures.mark(**stream);
    if (!mark.ok()) return mark.status();
    return machine_.events.record(event_id, *std::move(mark));
  });
}

Result<bool> SimDevice::is_done(EventId event_id) {
  return call(DeviceCall::kIsDone, [&](CallSize&) -> Result<bool> {
    Result<SimEvent> event = machine_.events.find(index(), event_id);
    if (!event.ok()) return event.status();
    if (Status ok = machine_.captures.check_query(*event, "is_done"); !ok.ok()) return ok;
    if (Status ok = machine_.captures.check_unsafe_call("is_done"); !ok.ok()) return ok;
    const bool done = event->recorded == nullptr || event->recorded->is_done();
    if (Status usable = check_not_lost(); !usable.ok()) return usable;
    return done;
  });
}

Status SimDevice::synchronize_event(EventId event_id) {
  return call(DeviceCall::kSynchronizeEvent, [&](CallSize&) -> Status {
    Result<SimEvent> event = machine_.events.find(index(), event_id);
    if (!event.ok()) return event.status();
    if (Status ok = machine_.captures.check_query(*event, "synchronize_event"); !ok.ok()) return ok;
    if (Status ok = machine_.captures.check_unsafe_call("synchronize_event"); !ok.ok()) return ok;
    return event->recorded ? wait_for(*event->recorded) : Status();
  });
}

Status SimDevice::wait_event(StreamId stream_id, EventId event_id) {
  return call(DeviceCall::kWaitEvent, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), stream_id);
    if (!stream.ok()) return stream.status();
    Result<SimEvent> event = machine_.events.find(event_id);
    if (!event.ok()) return event.status();
    if (event->captured) return machine_.captures.join(**stream, *event->captured);
    if (event->recorded == nullptr) return {};
    if (machine_.captures.is_capturing(**stream)) {
      return machine_.captures.reject_outside_work(**stream);
    }
    if (event->recorded->is_done()) return {};
    return (*stream)->push({{}, event->recorded, nullptr, 0});
  });
}

Result<double> SimDevice::elapsed_ms(EventId begin, EventId end) {
  return call(DeviceCall::kElapsedMs, [&](CallSize&) -> Result<double> {
    std::array<SimEvent, 2> events;
    const std::array<EventId, 2> ids = {begin, end};
    for (size_t i = 0; i < ids.size(); ++i) {
      Result<SimEvent> event = machine_.events.find(index(), ids[i]);
      if (!event.ok()) return event.status();
      if (!event->timing || !event->recorded || !event->recorded->is_done()) {
        return Status::invalid_argument(text("event ", ids[i],
                                             " has no time: expected one made with timing, ",
                                             "recorded and done"));
      }
      events[i] = *std::move(event);
    }
    const int64_t elapsed_ns =
        events[1].recorded->finished_at_ns() - events[0].recorded->finished_at_ns();
    return static_cast<double>(elapsed_ns) * 1e-6;
  });
}

// --- work

Status SimDevice::enqueue(StreamId id, std::function<Status()> work, int64_t modelled_ns) {
  Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
  if (!stream.ok()) return stream.status();
  auto run = [this, id, work = std::move(work)] {
    if (interceptor_.is_lost()) return;
    if (const Status done = run_guarded(work); !done.ok()) lose_after_work(id, done);
  };
  if (machine_.captures.is_capturing(**stream)) {
    return machine_.captures.add(**stream, std::move(run), modelled_ns);
  }
  return (*stream)->push({std::move(run), nullptr, nullptr, modelled_ns});
}

void SimDevice::lose(const Status& reason) {
  interceptor_.lose(reason);
  drop_work();
}

// If host memory is exhausted, the queued work is not dropped, but it has no effect on a lost
// device.
void SimDevice::lose_after_work(StreamId stream, const Status& failure) noexcept {
  interceptor_.lose(without_bad_alloc([&] {
    return Status::device_lost(
        "work", failure.code(),
        text("work in stream ", stream, " of device ", index(), " failed: ", failure.message()));
  }));
  catch_bad_alloc([this] { drop_work(); });
}

void SimDevice::drop_work() {
  for (const auto& stream : machine_.streams.streams_of(index())) stream->drop();
  machine_.captures.drop(index());
}

Status SimDevice::launch(StreamId stream, std::function<Status()> kernel) {
  constexpr int64_t kKernelNs = 5000;
  return call(DeviceCall::kLaunch,
              [&](CallSize&) { return enqueue(stream, std::move(kernel), kKernelNs); });
}

Result<void*> SimDevice::view(AddressRange range, Access access) {
  if (machine_.options.backing == Backing::kBookkeeping) {
    return Status::unsupported("device memory holds no data with Backing::kBookkeeping");
  }
  return machine_.addresses.shadow(index(), range, access);
}

Status SimDevice::check_host_pointer(const void* memory) const {
  if (memory == nullptr) return Status::invalid_argument("the host pointer is null");
  const DeviceAddress at(reinterpret_cast<uint64_t>(memory));
  if (!machine_.addresses.is_reserved(at)) return {};
  return Status::invalid_argument(text(at, " is a device address where host memory was expected"));
}

Status SimDevice::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                 StreamId stream) {
  return call(DeviceCall::kCopyToDevice, [&](CallSize& size) -> Status {
    size.bytes = bytes;
    if (Status ok = check_host_pointer(from); !ok.ok()) return ok;
    Status ok = machine_.addresses.check(index(), {to, bytes}, Access::kReadWrite);
    if (!ok.ok()) return ok;
    auto work = [this, to, from, bytes] {
      return machine_.addresses.write({index(), to}, from, bytes);
    };
    return enqueue(stream, work, modelled_transfer_ns(TransferPath::kHostLink, bytes));
  });
}

Status SimDevice::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return call(DeviceCall::kCopyToHost, [&](CallSize& size) -> Status {
    size.bytes = bytes;
    if (Status ok = check_host_pointer(to); !ok.ok()) return ok;
    Status ok = machine_.addresses.check(index(), {from, bytes}, Access::kRead);
    if (!ok.ok()) return ok;
    auto work = [this, to, from, bytes] {
      return machine_.addresses.read(to, {index(), from}, bytes);
    };
    return enqueue(stream, work, modelled_transfer_ns(TransferPath::kHostLink, bytes));
  });
}

Status SimDevice::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) {
  return call(DeviceCall::kCopy, [&](CallSize& size) {
    size.bytes = bytes;
    return transfer(index(), to, from, bytes, stream);
  });
}

Status SimDevice::copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                               StreamId stream) {
  return call(DeviceCall::kCopyToPeer, [&](CallSize& size) -> Status {
    size.bytes = bytes;
    if (Status known = check_peer(peer); !known.ok()) return known;
    return transfer(peer, to, from, bytes, stream);
  });
}

Status SimDevice::transfer(DeviceIndex to_accessor, DeviceAddress to, DeviceAddress from,
                           size_t bytes, StreamId stream) {
  Status target = machine_.addresses.check(to_accessor, {to, bytes}, Access::kReadWrite);
  if (!target.ok()) return target;
  Status source = machine_.addresses.check(index(), {from, bytes}, Access::kRead);
  if (!source.ok()) return source;
  if (to < from + bytes && from < to + bytes) {
    return Status::invalid_argument(text("the ranges ", AddressRange{to, bytes}, " and ",
                                         AddressRange{from, bytes}, " overlap"));
  }
  auto work = [this, to_accessor, to, from, bytes] {
    return machine_.addresses.transfer({to_accessor, to}, {index(), from}, bytes);
  };
  return enqueue(stream, work, modelled_transfer_ns(TransferPath::kDeviceMemory, bytes));
}

Status SimDevice::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return call(DeviceCall::kFill, [&](CallSize& size) -> Status {
    size.bytes = bytes;
    Status ok = machine_.addresses.check(index(), {at, bytes}, Access::kReadWrite);
    if (!ok.ok()) return ok;
    auto work = [this, at, value, bytes] {
      return machine_.addresses.fill({index(), at}, value, bytes);
    };
    return enqueue(stream, work, modelled_transfer_ns(TransferPath::kDeviceMemory, bytes));
  });
}

Status SimDevice::call_host(StreamId stream, std::function<void()> function) {
  return call(DeviceCall::kCallHost, [&](CallSize&) -> Status {
    if (!function) return Status::invalid_argument("the host function is empty");
    auto work = [function = std::move(function)] {
      function();
      return Status();
    };
    return enqueue(stream, std::move(work), 0);
  });
}

// --- capture

Status SimDevice::begin_capture(StreamId id, CaptureMode mode) {
  return call(DeviceCall::kBeginCapture, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    return machine_.captures.begin(**stream, mode);
  });
}

Result<GraphId> SimDevice::end_capture(StreamId id) {
  return call(DeviceCall::kEndCapture, [&](CallSize&) -> Result<GraphId> {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    return machine_.captures.end(**stream);
  });
}

Result<CaptureState> SimDevice::capture_state(StreamId id) {
  return call(DeviceCall::kCaptureState, [&](CallSize&) -> Result<CaptureState> {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    return machine_.captures.state(**stream);
  });
}

Status SimDevice::retain_in_graph(StreamId id, std::shared_ptr<const void> object) {
  return call(DeviceCall::kCaptureState, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    const CaptureState state = machine_.captures.state(**stream);
    if (state.status != CaptureStatus::kActive) {
      return Status::invalid_argument(text("stream ", id, " has no valid capture"));
    }
    const auto attach = [&](std::unique_ptr<GraphObjectReleaser::Ticket> ticket) {
      return machine_.captures.retain(**stream, std::move(ticket));
    };
    return graph_objects_.retain(state.capture, std::move(object), attach);
  });
}

Result<std::vector<NodeId>> SimDevice::node_dependencies(NodeId node) {
  return call(DeviceCall::kNodeDependencies,
              [&](CallSize&) { return machine_.captures.dependencies(index(), node); });
}

Result<CaptureMode> SimDevice::exchange_capture_mode(CaptureMode mode) {
  return call(DeviceCall::kExchangeCaptureMode, [&](CallSize&) -> Result<CaptureMode> {
    return CaptureTable::exchange_thread_mode(mode);
  });
}

Status SimDevice::launch_graph(GraphId id, StreamId stream) {
  return call(DeviceCall::kLaunchGraph, [&](CallSize&) -> Status {
    Result<std::shared_ptr<const SimGraph>> graph = machine_.captures.find_graph(index(), id);
    if (!graph.ok()) return graph.status();
    int64_t modelled_ns = 0;
    for (const GraphNode& node : (*graph)->nodes) modelled_ns += node.modelled_ns;
    auto work = [graph = *graph] {
      for (const GraphNode& node : graph->nodes) node.run();
      return Status();
    };
    return enqueue(stream, work, modelled_ns);
  });
}

Status SimDevice::destroy_graph(GraphId id) {
  return call(DeviceCall::kDestroyGraph,
              [&](CallSize&) { return machine_.captures.destroy_graph(index(), id); });
}

}  // namespace ashlar::sim
