// SPDX-License-Identifier: Apache-2.0
//
// Captures and graphs, and the driver's stream-ordered pool, which must stay out of them.
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {

// --- capture ------------------------------------------------------------------------------------

// While some stream captures, a driver may refuse to look at the default stream, and says so by an
// error; that stream itself captures nothing.
Result<CaptureFacts> GpuDevice::capture_facts(StreamId stream) {
  CaptureFacts facts;
  const Outcome asked = driver().capture_facts(stream, facts);
  if (stream == kDefaultStream && asked.code == kCaptureImplicit) return CaptureFacts{};
  if (!asked.ok()) return done(asked);
  graphs_.note(stream, facts);
  return facts;
}

Status GpuDevice::refuse_capturing(StreamId stream, const char* act) {
  const Result<CaptureFacts> facts = capture_facts(stream);
  if (!facts.ok()) return facts.status();
  if (facts->status == CaptureStatus::kNone) return {};
  return Status::unsupported(text(act, " in a capturing stream"));
}

Status GpuDevice::begin_capture(StreamId stream, CaptureMode mode) {
  return call_on(stream, [&]() -> Status {
    if (stream == kDefaultStream) {
      return Status::unsupported("the default stream cannot capture; make a stream for it");
    }
    return done(driver().begin_capture(stream, mode));
  });
}

Result<GraphId> GpuDevice::end_capture(StreamId stream) {
  return call_on(stream, [&]() -> Result<GraphId> {
    const Result<CaptureFacts> before = capture_facts(stream);
    if (!before.ok()) return before.status();
    Handle graph = 0;
    if (Status ended = done(driver().end_capture(stream, graph)); !ended.ok()) {
      const Result<CaptureFacts> after = capture_facts(stream);
      const bool is_over = after.ok() && after->status == CaptureStatus::kNone;
      if (is_over && before->graph != 0) graphs_.forget(GraphId(before->graph));
      return ended;
    }
    graphs_.add(GraphId(graph));
    return GraphId(graph);
  });
}

Result<CaptureState> GpuDevice::capture_state(StreamId stream) {
  return call_on(stream, [&]() -> Result<CaptureState> {
    Result<CaptureFacts> facts = capture_facts(stream);
    if (!facts.ok()) return facts.status();
    if (facts->status == CaptureStatus::kNone) return CaptureState{};
    return CaptureState{facts->status, CaptureId(facts->id), GraphId(facts->graph),
                        std::move(facts->tail)};
  });
}

Result<std::vector<NodeId>> GpuDevice::node_dependencies(NodeId node) {
  return call([&]() -> Result<std::vector<NodeId>> {
    if (Status known = graphs_.check(node); !known.ok()) return known;
    std::vector<NodeId> before;
    if (Status asked = done(driver().node_dependencies(node, before)); !asked.ok()) return asked;
    graphs_.note_more(node, before);
    return before;
  });
}

Result<CaptureMode> GpuDevice::exchange_capture_mode(CaptureMode mode) {
  return call([&]() -> Result<CaptureMode> {
    CaptureMode exchanged = mode;
    if (Status done_so = done(driver().exchange_capture_mode(exchanged)); !done_so.ok()) {
      return done_so;
    }
    return exchanged;
  });
}

// --- graphs -------------------------------------------------------------------------------------

Status GpuDevice::launch_graph(GraphId id, StreamId stream) {
  return call_on(stream, [&]() -> Status {
    const Result<std::shared_ptr<CapturedGraph>> graph = graphs_.find(id);
    if (!graph.ok()) return graph.status();
    MutexLock lock((*graph)->mutex);
    Handle& launchable = (*graph)->launchable;
    if (launchable == 0) {
      Status made = done(driver().make_launchable(id.value(), launchable));
      if (!made.ok()) return made;
    }
    return done(driver().launch_graph(launchable, stream));
  });
}

Status GpuDevice::destroy_graph(GraphId id) {
  return call([&]() -> Status {
    const Result<std::shared_ptr<CapturedGraph>> graph = graphs_.remove(id);
    if (!graph.ok()) return graph.status();
    Status unlaunchable;
    {
      MutexLock lock((*graph)->mutex);
      if ((*graph)->launchable != 0) {
        unlaunchable = done(driver().destroy_launchable((*graph)->launchable));
      }
    }
    Status destroyed = done(driver().destroy_graph(id.value()));
    return unlaunchable.ok() ? destroyed : unlaunchable;
  });
}

// --- the stream-ordered pool --------------------------------------------------------------------

// A pool of our own, so that its figures are ours, and its thresholds no other library's.
Result<Handle> GpuDevice::pool() {
  if (!properties_.has_stream_pool) {
    return Status::unsupported("this device has no stream-ordered pool");
  }
  MutexLock lock(mutex_);
  if (pool_ == 0) {
    if (Status made = done(driver().create_pool(ordinal(), pool_)); !made.ok()) return made;
  }
  return pool_;
}

Result<DeviceAddress> GpuDevice::allocate_async(size_t bytes, StreamId stream) {
  return call_on(stream, [&]() -> Result<DeviceAddress> {
    const Result<Handle> from = pool();
    if (!from.ok()) return from.status();
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status outside = refuse_capturing(stream, "allocate_async"); !outside.ok()) return outside;
    if (Status fits = refuse_too_large(bytes); !fits.ok()) return fits;
    DeviceAddress at;
    Status made = done(driver().allocate_async(bytes, *from, stream, at));
    if (!made.ok()) return made;
    common_.places.add(PlaceKind::kPooled, {at, bytes}, index());
    return at;
  });
}

Status GpuDevice::free_async(DeviceAddress address, StreamId stream) {
  return call_on(stream, [&]() -> Status {
    if (Status outside = refuse_capturing(stream, "free_async"); !outside.ok()) return outside;
    const auto range = common_.places.remove(PlaceKind::kPooled, address, index());
    if (!range.ok()) return range.status();
    Status freed = done(driver().free_async(address, stream));
    if (!freed.ok()) common_.places.add(PlaceKind::kPooled, *range, index());
    return freed;
  });
}

Result<DriverPoolStats> GpuDevice::driver_pool_stats() {
  return call([&]() -> Result<DriverPoolStats> {
    const Result<Handle> of = pool();
    if (!of.ok()) return of.status();
    Status read;
    const auto figure = [&](PoolFigure wanted) -> size_t {
      uint64_t bytes = 0;
      if (read.ok()) read = done(driver().pool_figure(*of, wanted, bytes));
      return bytes;
    };
    DriverPoolStats use;
    use.reserved_bytes = figure(PoolFigure::kReserved);
    use.used_bytes = figure(PoolFigure::kUsed);
    use.reserved_peak_bytes = figure(PoolFigure::kReservedPeak);
    use.used_peak_bytes = figure(PoolFigure::kUsedPeak);
    if (!read.ok()) return read;
    return use;
  });
}

Status GpuDevice::reset_pool_peaks() {
  return call([&]() -> Status {
    const Result<Handle> of = pool();
    if (!of.ok()) return of.status();
    Status reserved = done(driver().reset_pool_peak(*of, PoolFigure::kReservedPeak));
    return reserved.ok() ? done(driver().reset_pool_peak(*of, PoolFigure::kUsedPeak)) : reserved;
  });
}

Status GpuDevice::set_pool_threshold(size_t keep_bytes) {
  return call([&]() -> Status {
    const Result<Handle> of = pool();
    return of.ok() ? done(driver().set_pool_threshold(*of, keep_bytes)) : of.status();
  });
}

Status GpuDevice::trim_pool(size_t keep_bytes) {
  return call([&]() -> Status {
    const Result<Handle> of = pool();
    return of.ok() ? done(driver().trim_pool(*of, keep_bytes)) : of.status();
  });
}

}  // namespace ashlar::gpu
