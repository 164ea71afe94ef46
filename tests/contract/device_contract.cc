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

void must(const Status& status, const char* file, int line) {
  if (status.ok()) return;
  std::ostringstream text;
  text << file << ":" << line << ": " << status.to_string();
  throw std::runtime_error(text.str());
}

// --- the life of a test -------------------------------------------------------------------------

void DeviceContract::SetUp() {
  Result<std::unique_ptr<MachineUnderTest>> machine = GetParam().open();
  if (machine.status().is(StatusKind::kUnsupported)) {
    GTEST_SKIP() << GetParam().name << " is not on this machine: " << machine.status().message();
  }
  ASSERT_TRUE(ok(machine));
  machine_ = *std::move(machine);
  ASSERT_GE(device_count(), 1U);
  side_streams_.assign(device_count(), kDefaultStream);
  for (size_t i = 0; i < device_count(); ++i) {
    (void)device_at(i).take_last_error();
  }
  free_bytes_at_start_ = free_bytes_everywhere();
}

void DeviceContract::TearDown() {
  if (machine_ == nullptr) return;
  for (const std::unique_ptr<Gate>& gate : gates_) {
    gate->open();
    EXPECT_FALSE(gate->has_expired()) << "a call waited for a gate that the test kept closed";
  }
  end_captures();
  synchronize_devices();
  take_back_everything();
  synchronize_devices();
  for (size_t i = 0; i < device_count(); ++i) {
    Device& one = device_at(i);
    if (one.properties().has_stream_pool) {
      EXPECT_TRUE(ok(one.set_pool_threshold(0)));
      EXPECT_TRUE(ok(one.trim_pool(0)));
    }
    EXPECT_TRUE(same_use(free_bytes(one), free_bytes_at_start_.at(i)))
        << "device " << i << " did not get back all that the test took";
  }
  gates_.clear();
  machine_.reset();
}

void DeviceContract::end_captures() {
  for (const Kept& kept : kept_) {
    if (kept.kind != Kind::kStream || !kept.device->properties().has_capture) continue;
    const StreamId stream(kept.thing);
    Result<CaptureState> state = kept.device->capture_state(stream);
    if (state.ok() && state->status != CaptureStatus::kNone) {
      (void)kept.device->end_capture(stream);
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

void DeviceContract::take_back_everything() {
  while (!kept_.empty()) {
    const Kept last = std::move(kept_.back());
    kept_.pop_back();
    EXPECT_TRUE(ok(last.undo())) << "the test's own " << last.thing << " could not be taken back";
  }
  for (size_t i = 0; i < device_count(); ++i) {
    if (side_streams_[i] == kDefaultStream) continue;
    EXPECT_TRUE(ok(device_at(i).destroy_stream(side_streams_[i])));
  }
}

void DeviceContract::keep(Kind kind, Device& on, uint64_t thing, std::function<Status()> undo) {
  kept_.push_back({kind, &on, thing, std::move(undo)});
}

void DeviceContract::forget(Kind kind, Device& on, uint64_t thing) {
  std::erase_if(kept_, [&](const Kept& kept) {
    return kept.kind == kind && kept.device == &on && kept.thing == thing;
  });
}

// --- things with an end -------------------------------------------------------------------------

size_t DeviceContract::granule_bytes() {
  constexpr size_t kCommon = size_t{2} << 20;
  return properties().has_virtual_memory ? properties().granularity_bytes : kCommon;
}

DeviceAddress DeviceContract::allocated(size_t bytes, Device& on) {
  const DeviceAddress address = must(on.allocate(bytes));
  keep(Kind::kMemory, on, address.value(), [&on, address] { return on.free(address); });
  return address;
}

void DeviceContract::keep_allocated(DeviceAddress address) {
  keep(Kind::kMemory, device(), address.value(),
       [this, address] { return device().free(address); });
}

void DeviceContract::free_now(DeviceAddress address) {
  must(device().free(address));
  forget(Kind::kMemory, device(), address.value());
}

DeviceAddress DeviceContract::reserved(size_t bytes, Device& on) {
  const DeviceAddress begin = must(on.reserve(bytes));
  keep_addresses({begin, bytes}, on);
  return begin;
}

void DeviceContract::keep_addresses(AddressRange range, Device& on) {
  keep(Kind::kAddresses, on, range.begin.value(),
       [&on, range] { return on.free_addresses(range); });
}

void DeviceContract::free_addresses_now(AddressRange range) {
  must(device().free_addresses(range));
  forget(Kind::kAddresses, device(), range.begin.value());
}

ExtentId DeviceContract::created(size_t bytes, const CreateOptions& options) {
  const ExtentId extent = must(device().create(bytes, options));
  keep_extent(extent);
  return extent;
}

ExtentId DeviceContract::created_on(Device& on, size_t bytes) {
  const ExtentId extent = must(on.create(bytes));
  keep_extent(extent, on);
  return extent;
}

void DeviceContract::keep_extent(ExtentId extent, Device& on) {
  keep(Kind::kExtent, on, extent.value(), [&on, extent] { return on.release(extent); });
}

void DeviceContract::release_now(ExtentId extent) {
  must(device().release(extent));
  forget(Kind::kExtent, device(), extent.value());
}

void DeviceContract::map_accessible(DeviceAddress at, ExtentId extent, size_t bytes) {
  must(device().map(at, extent));
  keep_mapping({at, bytes});
  must(device().set_access({at, bytes}, properties().index, Access::kReadWrite));
}

void DeviceContract::keep_mapping(AddressRange range, Device& on) {
  keep(Kind::kMapping, on, range.begin.value(), [&on, range] { return on.unmap(range); });
}

void DeviceContract::unmap_now(AddressRange range) {
  must(device().unmap(range));
  std::erase_if(kept_, [&](const Kept& kept) {
    return kept.kind == Kind::kMapping && range.contains(DeviceAddress(kept.thing));
  });
}

MappedRange DeviceContract::mapped_range(size_t bytes, Device& on) {
  const AddressRange range{reserved(bytes, on), bytes};
  const ExtentId extent = created_on(on, bytes);
  must(on.map(range.begin, extent));
  keep_mapping(range, on);
  must(on.set_access(range, on.properties().index, Access::kReadWrite));
  return {range, extent};
}

void* DeviceContract::pinned(size_t bytes) {
  void* memory = must(device().allocate_host(bytes));
  keep(Kind::kHost, device(), reinterpret_cast<uintptr_t>(memory),
       [this, memory] { return device().free_host(memory); });
  return memory;
}

StreamId DeviceContract::new_stream(Device& on) {
  const StreamId stream = must(on.create_stream());
  keep(Kind::kStream, on, stream.value(), [&on, stream] { return on.destroy_stream(stream); });
  return stream;
}

void DeviceContract::destroy_now(StreamId stream) {
  must(device().destroy_stream(stream));
  forget(Kind::kStream, device(), stream.value());
}

EventId DeviceContract::new_event(Device& on, const EventOptions& options) {
  const EventId event = must(on.create_event(options));
  keep(Kind::kEvent, on, event.value(), [&on, event] { return on.destroy_event(event); });
  return event;
}

void DeviceContract::destroy_now(EventId event) {
  must(device().destroy_event(event));
  forget(Kind::kEvent, device(), event.value());
}

// --- bytes --------------------------------------------------------------------------------------

StreamId DeviceContract::side_stream(Device& on) {
  StreamId& stream = side_streams_.at(on.properties().index.value());
  if (stream == kDefaultStream) stream = must(on.create_stream());
  return stream;
}

void DeviceContract::write(DeviceAddress to, const Bytes& bytes, Device& on) {
  const StreamId stream = side_stream(on);
  must(on.copy_to_device(to, bytes.data(), bytes.size(), stream));
  must(on.synchronize_stream(stream));
}

Bytes DeviceContract::read_back(DeviceAddress from, size_t bytes, Device& on) {
  const StreamId stream = side_stream(on);
  Bytes found(bytes);
  must(on.copy_to_host(found.data(), from, bytes, stream));
  must(on.synchronize_stream(stream));
  return found;
}

testing::AssertionResult DeviceContract::holds_bytes(DeviceAddress at, Device& on) {
  for (const uint8_t seed : {uint8_t{3}, uint8_t{90}}) {
    const Bytes wanted = pattern(512, seed);
    write(at, wanted, on);
    if (read_back(at, wanted.size(), on) != wanted) {
      return testing::AssertionFailure() << "the memory does not hold what was written to it";
    }
  }
  return testing::AssertionSuccess();
}

// --- holding streams ----------------------------------------------------------------------------

Gate& DeviceContract::hold(StreamId stream, Device& on) {
  Gate& gate = *gates_.emplace_back(std::make_unique<Gate>(on, stream));
  if (!eventually([&] { return gate.is_reached(); })) {
    throw std::runtime_error("the stream did not get to the gate");
  }
  return gate;
}

Gate& DeviceContract::hold_later(StreamId stream) {
  return *gates_.emplace_back(std::make_unique<Gate>(device(), stream));
}

void DeviceContract::expect_waits_for(Gate& gate, const std::function<Status()>& call) {
  std::future<Status> outcome = std::async(std::launch::async, call);
  EXPECT_EQ(outcome.wait_for(kWatch), std::future_status::timeout) << "the call did not wait";
  gate.open();
  EXPECT_TRUE(ok(outcome.get()));
}

testing::AssertionResult DeviceContract::stays_busy(StreamId stream, Device& on) {
  return stays([&] { return !must(on.is_idle(stream)); });
}

testing::AssertionResult DeviceContract::becomes_idle(StreamId stream) {
  return eventually([&] { return must(device().is_idle(stream)); });
}

// --- refusals -----------------------------------------------------------------------------------

void DeviceContract::expect_refused(StatusKind kind, Device& by, const Status& status,
                                    const char* file, int line) {
  const testing::ScopedTrace trace(file, line, "the call that should have been refused");
  EXPECT_EQ(name(status.kind()), name(kind)) << status.to_string();
  if (status.ok()) return;
  EXPECT_FALSE(status.message().empty()) << "a refusal says why";
  EXPECT_EQ(by.last_error().to_string(), status.to_string());
  EXPECT_EQ(by.take_last_error().to_string(), status.to_string());
  EXPECT_TRUE(ok(by.last_error())) << "the error was taken already";
}

DeviceContract::Untouched::Untouched(DeviceContract& contract, int line)
    : contract_(contract), line_(line), free_bytes_(contract.free_bytes_everywhere()) {}

DeviceContract::Untouched::~Untouched() {
  const std::vector<size_t> now = contract_.free_bytes_everywhere();
  for (size_t i = 0; i < now.size(); ++i) {
    EXPECT_TRUE(contract_.same_use(now[i], free_bytes_.at(i)))
        << "refused calls from line " << line_ << " on changed the memory use of device " << i;
  }
}

size_t DeviceContract::free_bytes(Device& on) { return must(on.memory_stats()).free_bytes; }

std::vector<size_t> DeviceContract::free_bytes_everywhere() {
  std::vector<size_t> all;
  for (size_t i = 0; i < device_count(); ++i) {
    Result<MemoryStats> use = device_at(i).memory_stats();
    EXPECT_TRUE(ok(use));
    all.push_back(use.ok() ? use->free_bytes : 0);
  }
  return all;
}

testing::AssertionResult DeviceContract::same_use(size_t found, size_t expected) const {
  const size_t apart = found > expected ? found - expected : expected - found;
  if (apart <= GetParam().accounting_slack_bytes) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << found << " bytes are free, and " << expected << " should be";
}

}  // namespace ashlar::contract
