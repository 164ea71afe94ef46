// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, and the work queued in them.
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"
#include "device/relaxed_capture.h"

namespace ashlar::gpu {
namespace {

// Work of the user's, boxed for a driver that passes one pointer.
struct HostCall {
  explicit HostCall(std::function<void()> wanted) : function(std::move(wanted)) {}
  std::function<void()> function;
};

// What a user's function throws would end up in the driver, so it ends the process instead.
void run_once(void* box) noexcept {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(box));
  call->function();
}
void run_again(void* box) noexcept { static_cast<HostCall*>(box)->function(); }
void drop(void* box) noexcept { const std::unique_ptr<HostCall> call(static_cast<HostCall*>(box)); }

}  // namespace

// --- streams ------------------------------------------------------------------------------------

Result<StreamId> GpuDevice::create_stream(const StreamOptions& options) {
  return call([&]() -> Result<StreamId> {
    if (options.priority < 0 || options.priority > properties_.greatest_priority) {
      return Status::invalid_argument(text("a priority of ", options.priority, " (expected 0 to ",
                                           properties_.greatest_priority, ")"));
    }
    const std::optional<StreamId> again = own_streams_.take_retired(
        options.priority, [this](StreamId retired) { return has_finished(retired); });
    if (again) return *again;
    StreamId stream;
    if (Status made = done(driver().create_stream(options.priority, stream)); !made.ok()) {
      return made;
    }
    own_streams_.add(stream, options.priority);
    return stream;
  });
}

// Of a stream that captures nothing. A capture that goes on elsewhere must not notice.
bool GpuDevice::has_finished(StreamId stream) {
  const RelaxedCapture relaxed(*this);
  return relaxed.status().ok() && driver().query_stream(stream).ok();
}

// Foreign streams can be used, and are not ours to destroy. Our own ones stay with the driver.
Status GpuDevice::destroy_stream(StreamId stream) {
  return call([&]() -> Status {
    const auto unknown = [&] {
      return Status::invalid_argument(text("stream ", stream, " was not made by device ", index()));
    };
    if (!own_streams_.contains(stream)) return unknown();
    const Result<CaptureFacts> facts = capture_facts(stream);
    if (!facts.ok()) return facts.status();
    if (facts->status != CaptureStatus::kNone) {
      return Status::invalid_argument(
          text("stream ", stream, " is capturing; end the capture first"));
    }
    return own_streams_.retire(stream) ? Status() : unknown();
  });
}

Status GpuDevice::check_stream(StreamId stream) const {
  if (!own_streams_.is_retired(stream)) return {};
  return Status::invalid_argument(text("stream ", stream, " was destroyed"));
}

Result<bool> GpuDevice::is_idle(StreamId stream) {
  return call_on(stream, [&]() -> Result<bool> {
    const Outcome queried = driver().query_stream(stream);
    if (queried.ok() || queried.code == kNotReady) return queried.ok();
    return done(queried);
  });
}

Status GpuDevice::synchronize_stream(StreamId stream) {
  return call_on(stream, [&] { return done(driver().synchronize_stream(stream)); });
}

Status GpuDevice::synchronize_device() {
  return call([&] { return done(driver().synchronize_device()); });
}

// --- events -------------------------------------------------------------------------------------

Result<EventId> GpuDevice::create_event(const EventOptions& options) {
  return call([&]() -> Result<EventId> {
    Handle event = 0;
    if (Status made = done(driver().create_event(options.timing, event)); !made.ok()) return made;
    return common_.events.add(index(), event);
  });
}

Status GpuDevice::destroy_event(EventId event) {
  return call([&]() -> Status {
    const Result<Handle> handle = common_.events.remove(event, index());
    if (!handle.ok()) return handle.status();
    return done(driver().destroy_event(*handle));
  });
}

Status GpuDevice::record_event(EventId event, StreamId stream) {
  return call_on(stream, [&]() -> Status {
    const Result<Handle> handle = common_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    return done(driver().record_event(*handle, stream));
  });
}

Result<bool> GpuDevice::is_done(EventId event) {
  return call([&]() -> Result<bool> {
    const Result<Handle> handle = common_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    const Outcome queried = driver().query_event(*handle);
    if (queried.ok() || queried.code == kNotReady) return queried.ok();
    return done(queried);
  });
}

Status GpuDevice::synchronize_event(EventId event) {
  return call([&]() -> Status {
    const Result<Handle> handle = common_.events.find(event, index());
    if (!handle.ok()) return handle.status();
    return done(driver().synchronize_event(*handle));
  });
}

Status GpuDevice::wait_event(StreamId stream, EventId event) {
  return call_on(stream, [&]() -> Status {
    const Result<Handle> handle = common_.events.find(event);
    if (!handle.ok()) return handle.status();
    return done(driver().wait_event(stream, *handle));
  });
}

Result<double> GpuDevice::elapsed_ms(EventId begin, EventId end) {
  return call([&]() -> Result<double> {
    const Result<Handle> first = common_.events.find(begin, index());
    if (!first.ok()) return first.status();
    const Result<Handle> last = common_.events.find(end, index());
    if (!last.ok()) return last.status();
    float elapsed = 0;
    const Outcome asked = driver().elapsed_ms(*first, *last, elapsed);
    if (asked.code == kNotReady)
      return Status::invalid_argument("an event without a time: it is not done");
    if (!asked.ok()) return done(asked);
    return double{elapsed};
  });
}

// --- work ---------------------------------------------------------------------------------------

// Of memory that came from elsewhere in the process, the driver must know.
Status GpuDevice::check_memory(DeviceIndex accessor, AddressRange range, Access wanted) {
  if (std::optional<Status> known = common_.places.check(accessor, range, wanted)) return *known;
  Location found;
  if (Status asked = done(driver().locate(range.begin, found)); !asked.ok()) return asked;
  if (found.kind == MemoryKind::kDevice && found.range.contains(range)) return {};
  return Status::invalid_argument(text("no device memory at ", range));
}

Status GpuDevice::check_host_pointer(const void* memory) const {
  if (memory == nullptr) return Status::invalid_argument("null where host memory was expected");
  const DeviceAddress at(reinterpret_cast<uint64_t>(memory));
  if (!common_.places.describe(at)) return {};
  return Status::invalid_argument(text(at, " is a device address where host memory was expected"));
}

Status GpuDevice::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                 StreamId stream) {
  return call_on(stream, [&]() -> Status {
    if (Status ok = check_host_pointer(from); !ok.ok()) return ok;
    if (Status ok = check_memory({to, bytes}, Access::kReadWrite); !ok.ok()) return ok;
    return done(driver().copy_to_device(to, from, bytes, stream));
  });
}

Status GpuDevice::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return call_on(stream, [&]() -> Status {
    if (Status ok = check_host_pointer(to); !ok.ok()) return ok;
    if (Status ok = check_memory({from, bytes}, Access::kRead); !ok.ok()) return ok;
    return done(driver().copy_to_host(to, from, bytes, stream));
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
  return call_on(stream, [&]() -> Status {
    if (Status ok = check_transfer(index(), to, from, bytes); !ok.ok()) return ok;
    return done(driver().copy(to, from, bytes, stream));
  });
}

Status GpuDevice::copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                               StreamId stream) {
  return call_on(stream, [&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (Status usable = common_.devices[peer.value()]->ready(); !usable.ok()) return usable;
    if (Status ok = check_transfer(peer, to, from, bytes); !ok.ok()) return ok;
    const Driver::PeerCopy wanted{static_cast<int>(peer.value()), to, ordinal(), from, bytes};
    return done(driver().copy_to_peer(wanted, stream));
  });
}

Status GpuDevice::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return call_on(stream, [&]() -> Status {
    if (Status ok = check_memory({at, bytes}, Access::kReadWrite); !ok.ok()) return ok;
    return done(driver().fill(at, value, bytes, stream));
  });
}

Status GpuDevice::call_host(StreamId stream, std::function<void()> function) {
  return call_on(stream, [&]() -> Status {
    if (!function) return Status::invalid_argument("there is no function to call");
    const Result<CaptureFacts> facts = capture_facts(stream);
    if (!facts.ok()) return facts.status();
    if (facts->status == CaptureStatus::kActive) {
      return call_host_in_capture(stream, facts->graph, std::move(function));
    }
    auto box = std::make_unique<HostCall>(std::move(function));
    Status queued = done(driver().call_host(stream, run_once, box.get()));
    if (queued.ok()) (void)box.release();  // run_once takes it
    return queued;
  });
}

// A graph may be launched any number of times, also after it was destroyed here: the driver says
// when the last launch is over.
Status GpuDevice::call_host_in_capture(StreamId stream, Handle graph,
                                       std::function<void()> function) {
  HostCall* box = std::make_unique<HostCall>(std::move(function)).release();
  Status kept = done(driver().keep_with_graph(graph, {box, drop}));
  return kept.ok() ? done(driver().call_host(stream, run_again, box)) : kept;
}

}  // namespace ashlar::gpu
