// SPDX-License-Identifier: Apache-2.0
//
// The C API for devices, streams, events and copies.
#include "api/allocator_registry.h"
#include "api/c/handles.h"
#include "api/process_devices.h"
#include "api/unwrap.h"

using namespace ashlar;
using namespace ashlar::c_api;

namespace {

// Calls `function`, which returns a Status, with the device. Fails if the device is null.
template <typename Function>
ashlar_status with_device(ashlar_device* device, const Function& function) noexcept {
  return guarded([&] {
    require(device, "device");
    unwrap(function(device_of(device)));
  });
}

// Makes allocations on a destroyed stream fail, even if cached memory could serve them.
void leave_fast_paths(const DeviceStream& destroyed) {
  DeviceAllocatorRegistry& registry = DeviceAllocatorRegistry::instance();
  for (const uint64_t number : registry.numbers()) {
    registry.visit(number, [&](Allocator& allocator) {
      if (&allocator.device() != destroyed.device) return;
      AllocatorAccess::impl(allocator).engine->leave_fast_path(destroyed.stream);
    });
  }
}

}  // namespace

ashlar_status ashlar_device_count(const char* backend, size_t* count) noexcept {
  return guarded([&] {
    require(backend, "backend");
    require(count, "count");
    const Registry* registry = unwrap(process_registry());
    const Backend* found = registry->find(backend);
    if (found != nullptr) unwrap(found->availability());
    if (found == nullptr) unwrap(process_device(backend, 0));  // throws, with the list of back ends
    *count = found->devices().size();
  });
}

ashlar_status ashlar_device_open(const char* backend, size_t index,
                                 ashlar_device** device) noexcept {
  return guarded([&] {
    require(backend, "backend");
    require(device, "device");
    *device = handle_of(unwrap(process_device(backend, index)));
  });
}

ashlar_status ashlar_device_describe(const ashlar_device* device,
                                     ashlar_device_properties* properties) noexcept {
  return guarded([&] {
    require(device, "device");
    require(properties, "properties");
    const DeviceProperties& found = device_of(device).properties();
    ashlar_device_properties described{};
    described.backend = found.backend.c_str();
    described.name = found.name.c_str();
    described.pci_id = found.pci_id.c_str();
    std::copy(found.uuid.begin(), found.uuid.end(), described.uuid);
    described.index = found.index.value();
    described.capacity_bytes = found.capacity_bytes;
    described.granularity_bytes = found.granularity_bytes;
    described.has_virtual_memory = found.has_virtual_memory ? 1 : 0;
    described.has_stream_ordered_pool = found.has_stream_ordered_pool ? 1 : 0;
    described.has_capture = found.has_capture ? 1 : 0;
    described.greatest_priority = found.greatest_priority;
    write_struct(described, properties);
  });
}

ashlar_status ashlar_device_memory(ashlar_device* device, size_t* free_bytes,
                                   size_t* total_bytes) noexcept {
  return guarded([&] {
    require(device, "device");
    const DeviceMemoryStats use = unwrap(device_of(device).memory_stats());
    if (free_bytes != nullptr) *free_bytes = use.free_bytes;
    if (total_bytes != nullptr) *total_bytes = use.total_bytes;
  });
}

ashlar_status ashlar_device_synchronize(ashlar_device* device) noexcept {
  return with_device(device, [](Device& target) { return target.synchronize_device(); });
}

ashlar_status ashlar_stream_create(ashlar_device* device, int32_t priority,
                                   ashlar_stream* stream) noexcept {
  return guarded([&] {
    require(device, "device");
    require(stream, "stream");
    *stream = to_stream_handle<ashlar_stream>(
        unwrap(device_of(device).create_stream({.priority = priority})));
  });
}

ashlar_status ashlar_stream_destroy(ashlar_device* device, ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    Status destroyed = target.destroy_stream(stream_id(stream));
    if (destroyed.ok()) leave_fast_paths({&target, stream_id(stream)});
    return destroyed;
  });
}

ashlar_status ashlar_stream_synchronize(ashlar_device* device, ashlar_stream stream) noexcept {
  return with_device(device,
                     [&](Device& target) { return target.synchronize_stream(stream_id(stream)); });
}

ashlar_status ashlar_stream_is_idle(ashlar_device* device, ashlar_stream stream,
                                    int32_t* is_idle) noexcept {
  return guarded([&] {
    require(device, "device");
    require(is_idle, "is_idle");
    *is_idle = unwrap(device_of(device).is_idle(stream_id(stream))) ? 1 : 0;
  });
}

ashlar_status ashlar_event_create(ashlar_device* device, ashlar_event* event) noexcept {
  return guarded([&] {
    require(device, "device");
    require(event, "event");
    *event = unwrap(device_of(device).create_event()).value();
  });
}

ashlar_status ashlar_event_destroy(ashlar_device* device, ashlar_event event) noexcept {
  return with_device(device, [&](Device& target) { return target.destroy_event(EventId(event)); });
}

ashlar_status ashlar_event_record(ashlar_device* device, ashlar_event event,
                                  ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    return target.record_event(EventId(event), stream_id(stream));
  });
}

ashlar_status ashlar_event_wait(ashlar_device* device, ashlar_event event,
                                ashlar_stream stream) noexcept {
  return with_device(
      device, [&](Device& target) { return target.wait_event(stream_id(stream), EventId(event)); });
}

ashlar_status ashlar_event_synchronize(ashlar_device* device, ashlar_event event) noexcept {
  return with_device(device,
                     [&](Device& target) { return target.synchronize_event(EventId(event)); });
}

ashlar_status ashlar_copy_to_device(ashlar_device* device, void* to, const void* from, size_t bytes,
                                    ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    return target.copy_to_device(DeviceAddress::of(to), from, bytes, stream_id(stream));
  });
}

ashlar_status ashlar_copy_to_host(ashlar_device* device, void* to, const void* from, size_t bytes,
                                  ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    return target.copy_to_host(to, DeviceAddress::of(from), bytes, stream_id(stream));
  });
}

ashlar_status ashlar_copy(ashlar_device* device, void* to, const void* from, size_t bytes,
                          ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    return target.copy(DeviceAddress::of(to), DeviceAddress::of(from), bytes, stream_id(stream));
  });
}

ashlar_status ashlar_fill(ashlar_device* device, void* at, uint8_t value, size_t bytes,
                          ashlar_stream stream) noexcept {
  return with_device(device, [&](Device& target) {
    return target.fill(DeviceAddress::of(at), value, bytes, stream_id(stream));
  });
}
