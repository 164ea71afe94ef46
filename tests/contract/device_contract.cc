// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the contract suite; see device_contract.h.
#include "device_contract.h"

#include <algorithm>
#include <future>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace ashlar::contract {

void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }

std::string backend_name(const testing::TestParamInfo<BackendUnderTest>& backend) {
  return backend.param.name;
}

Bytes pattern(size_t bytes, uint8_t seed) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
  return made;
}

testing::AssertionResult ok(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.to_string();
}

void require_ok(const Status& status, const char* file, int line) {
  if (status.ok()) return;
  std::ostringstream text;
  text << file << ":" << line << ": " << status.to_string();
  throw std::runtime_error(text.str());
}

// --- setup and teardown

void DeviceContract::SetUp() {
  Result<std::unique_ptr<MachineUnderTest>> machine = GetParam().open();
  if (machine.status().is(StatusKind::kUnsupported)) {
    GTEST_SKIP() << GetParam().name << " is not available: " << machine.status().message();
  }
  ASSERT_TRUE(ok(machine));
  machine_ = *std::move(machine);
  ASSERT_GE(device_count(), 1U);
  transfer_streams_.assign(device_count(), kDefaultStream);
  for (size_t i = 0; i < device_count(); ++i) {
    (void)device_at(i).take_last_error();
  }
  free_bytes_at_start_ = free_bytes_of_all_devices();
}

void DeviceContract::TearDown() {
  if (machine_ == nullptr) return;
  for (const std::unique_ptr<StreamGate>& gate : gates_) {
    gate->open();
    EXPECT_FALSE(gate->has_expired()) << "a call waited for a closed gate";
  }
  end_captures();
  synchronize_devices();
  release_tracked();
  synchronize_devices();
  for (size_t i = 0; i < device_count(); ++i) {
    Device& one = device_at(i);
    if (one.properties().has_stream_ordered_pool) {
      EXPECT_TRUE(ok(one.set_pool_threshold(0)));
      EXPECT_TRUE(ok(one.trim_pool(0)));
    }
    EXPECT_TRUE(equal_within_slack(free_bytes(one), free_bytes_at_start_.at(i)))
        << "device " << i << " has less free memory than before the test";
  }
  gates_.clear();
  machine_.reset();
}

void DeviceContract::end_captures() {
  for (const Tracked& tracked : tracked_) {
    if (tracked.kind != Kind::kStream || !tracked.device->properties().has_capture) continue;
    const StreamId stream(tracked.id);
    Result<CaptureState> state = tracked.device->capture_state(stream);
    if (state.ok() && state->status != CaptureStatus::kNone) {
      (void)tracked.device->end_capture(stream);
    }
  }
  if (properties().has_capture) {
    EXPECT_TRUE(ok(device().exchange_capture_mode(CaptureMode::kGlobal)));
  }
}

void DeviceContract::synchronize_devices() {
  for (size_t i = 0; i < device_count(); ++i) {
    EXPECT_TRUE(ok(device_at(i).synchronize_device()));
  }
}

void DeviceContract::release_tracked() {
  while (!tracked_.empty()) {
    const Tracked last = std::move(tracked_.back());
    tracked_.pop_back();
    EXPECT_TRUE(ok(last.undo())) << "the test's own " << last.id << " could not be released";
  }
  for (size_t i = 0; i < device_count(); ++i) {
    if (transfer_streams_[i] == kDefaultStream) continue;
    EXPECT_TRUE(ok(device_at(i).destroy_stream(transfer_streams_[i])));
  }
}

void DeviceContract::track(Kind kind, Device& on, uint64_t id, std::function<Status()> undo) {
  tracked_.push_back({kind, &on, id, std::move(undo)});
}

void DeviceContract::untrack(Kind kind, Device& on, uint64_t id) {
  std::erase_if(tracked_, [&](const Tracked& tracked) {
    return tracked.kind == kind && tracked.device == &on && tracked.id == id;
  });
}

// --- objects that the fixture releases

size_t DeviceContract::granule_bytes() {
  constexpr size_t kDefaultGranule = size_t{2} << 20;
  return properties().has_virtual_memory ? properties().granularity_bytes : kDefaultGranule;
}

DeviceAddress DeviceContract::allocate(size_t bytes, Device& on) {
  const DeviceAddress address = require_ok(on.allocate(bytes));
  track(Kind::kMemory, on, address.value(), [&on, address] { return on.free(address); });
  return address;
}

void DeviceContract::track_allocation(DeviceAddress address) {
  track(Kind::kMemory, device(), address.value(),
        [this, address] { return device().free(address); });
}

void DeviceContract::free_now(DeviceAddress address) {
  require_ok(device().free(address));
  untrack(Kind::kMemory, device(), address.value());
}

DeviceAddress DeviceContract::reserve(size_t bytes, Device& on) {
  const DeviceAddress begin = require_ok(on.reserve(bytes));
  track_addresses({begin, bytes}, on);
  return begin;
}

void DeviceContract::track_addresses(AddressRange range, Device& on) {
  track(Kind::kAddresses, on, range.begin.value(),
        [&on, range] { return on.free_addresses(range); });
}

void DeviceContract::free_addresses_now(AddressRange range) {
  require_ok(device().free_addresses(range));
  untrack(Kind::kAddresses, device(), range.begin.value());
}

ExtentId DeviceContract::create(size_t bytes, const CreateOptions& options) {
  const ExtentId extent = require_ok(device().create(bytes, options));
  track_extent(extent);
  return extent;
}

ExtentId DeviceContract::create_on(Device& on, size_t bytes) {
  const ExtentId extent = require_ok(on.create(bytes));
  track_extent(extent, on);
  return extent;
}

void DeviceContract::track_extent(ExtentId extent, Device& on) {
  track(Kind::kExtent, on, extent.value(), [&on, extent] { return on.release(extent); });
}

void DeviceContract::release_now(ExtentId extent) {
  require_ok(device().release(extent));
  untrack(Kind::kExtent, device(), extent.value());
}

void DeviceContract::map_accessible(DeviceAddress at, ExtentId extent, size_t bytes) {
  require_ok(device().map(at, extent));
  track_mapping({at, bytes});
  require_ok(device().set_access({at, bytes}, properties().index, Access::kReadWrite));
}

void DeviceContract::track_mapping(AddressRange range, Device& on) {
  track(Kind::kMapping, on, range.begin.value(), [&on, range] { return on.unmap(range); });
}

void DeviceContract::unmap_now(AddressRange range) {
  require_ok(device().unmap(range));
  std::erase_if(tracked_, [&](const Tracked& tracked) {
    return tracked.kind == Kind::kMapping && range.contains(DeviceAddress(tracked.id));
  });
}

MappedRange DeviceContract::map_range(size_t bytes, Device& on) {
  const AddressRange range{reserve(bytes, on), bytes};
  const ExtentId extent = create_on(on, bytes);
  require_ok(on.map(range.begin, extent));
  track_mapping(range, on);
  require_ok(on.set_access(range, on.properties().index, Access::kReadWrite));
  return {range, extent};
}

void* DeviceContract::allocate_pinned(size_t bytes) {
  void* memory = require_ok(device().allocate_host(bytes));
  track(Kind::kHost, device(), reinterpret_cast<uintptr_t>(memory),
        [this, memory] { return device().free_host(memory); });
  return memory;
}

StreamId DeviceContract::create_stream(Device& on) {
  const StreamId stream = require_ok(on.create_stream());
  track(Kind::kStream, on, stream.value(), [&on, stream] { return on.destroy_stream(stream); });
  return stream;
}

void DeviceContract::destroy_now(StreamId stream) {
  require_ok(device().destroy_stream(stream));
  untrack(Kind::kStream, device(), stream.value());
}

EventId DeviceContract::create_event(Device& on, const EventOptions& options) {
  const EventId event = require_ok(on.create_event(options));
  track(Kind::kEvent, on, event.value(), [&on, event] { return on.destroy_event(event); });
  return event;
}

void DeviceContract::destroy_now(EventId event) {
  require_ok(device().destroy_event(event));
  untrack(Kind::kEvent, device(), event.value());
}

// --- memory contents

StreamId DeviceContract::transfer_stream(Device& on) {
  StreamId& stream = transfer_streams_.at(on.properties().index.value());
  if (stream == kDefaultStream) stream = require_ok(on.create_stream());
  return stream;
}

void DeviceContract::write(DeviceAddress to, const Bytes& bytes, Device& on) {
  const StreamId stream = transfer_stream(on);
  require_ok(on.copy_to_device(to, bytes.data(), bytes.size(), stream));
  require_ok(on.synchronize_stream(stream));
}

Bytes DeviceContract::read_back(DeviceAddress from, size_t bytes, Device& on) {
  const StreamId stream = transfer_stream(on);
  Bytes found(bytes);
  require_ok(on.copy_to_host(found.data(), from, bytes, stream));
  require_ok(on.synchronize_stream(stream));
  return found;
}

testing::AssertionResult DeviceContract::is_usable(DeviceAddress at, Device& on) {
  for (const uint8_t seed : {uint8_t{3}, uint8_t{90}}) {
    const Bytes wanted = pattern(512, seed);
    write(at, wanted, on);
    if (read_back(at, wanted.size(), on) != wanted) {
      return testing::AssertionFailure() << "the memory does not contain the data written to it";
    }
  }
  return testing::AssertionSuccess();
}

// --- control streams

StreamGate& DeviceContract::block_stream(StreamId stream, Device& on) {
  StreamGate& gate = *gates_.emplace_back(std::make_unique<StreamGate>(on, stream));
  if (!eventually([&] { return gate.is_reached(); })) {
    throw std::runtime_error("the stream did not reach the gate");
  }
  return gate;
}

StreamGate& DeviceContract::block_stream_later(StreamId stream) {
  return *gates_.emplace_back(std::make_unique<StreamGate>(device(), stream));
}

void DeviceContract::expect_waits_for(StreamGate& gate, const std::function<Status()>& call) {
  std::future<Status> outcome = std::async(std::launch::async, call);
  EXPECT_EQ(outcome.wait_for(kObservationTime), std::future_status::timeout)
      << "the call did not wait";
  gate.open();
  EXPECT_TRUE(ok(outcome.get()));
}

testing::AssertionResult DeviceContract::stays_busy(StreamId stream, Device& on) {
  return consistently([&] { return !require_ok(on.is_idle(stream)); });
}

testing::AssertionResult DeviceContract::becomes_idle(StreamId stream) {
  return eventually([&] { return require_ok(device().is_idle(stream)); });
}

// --- rejected calls

void DeviceContract::expect_error(StatusKind kind, Device& by, const Status& status,
                                  const char* file, int line) {
  const testing::ScopedTrace trace(file, line, "the call that should have failed");
  EXPECT_EQ(name(status.kind()), name(kind)) << status.to_string();
  if (status.ok()) return;
  EXPECT_FALSE(status.message().empty()) << "the failure has no message";
  EXPECT_EQ(by.last_error().to_string(), status.to_string());
  EXPECT_EQ(by.take_last_error().to_string(), status.to_string());
  EXPECT_TRUE(ok(by.last_error())) << "take_last_error did not clear the error";
}

DeviceContract::MemoryUnchangedCheck::MemoryUnchangedCheck(DeviceContract& contract, int line)
    : contract_(contract), line_(line), free_bytes_(contract.free_bytes_of_all_devices()) {}

DeviceContract::MemoryUnchangedCheck::~MemoryUnchangedCheck() {
  const std::vector<size_t> now = contract_.free_bytes_of_all_devices();
  for (size_t i = 0; i < now.size(); ++i) {
    EXPECT_TRUE(contract_.equal_within_slack(now[i], free_bytes_.at(i)))
        << "rejected calls after line " << line_ << " changed the memory use of device " << i;
  }
}

size_t DeviceContract::free_bytes(Device& on) { return require_ok(on.memory_stats()).free_bytes; }

std::vector<size_t> DeviceContract::free_bytes_of_all_devices() {
  std::vector<size_t> all;
  for (size_t i = 0; i < device_count(); ++i) {
    Result<DeviceMemoryStats> use = device_at(i).memory_stats();
    EXPECT_TRUE(ok(use));
    all.push_back(use.ok() ? use->free_bytes : 0);
  }
  return all;
}

testing::AssertionResult DeviceContract::equal_within_slack(size_t found, size_t expected) const {
  const size_t apart = found > expected ? found - expected : expected - found;
  if (apart <= GetParam().accounting_slack_bytes) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << " bytes are free, expected " << expected;
}

}  // namespace ashlar::contract
