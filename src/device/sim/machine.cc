// SPDX-License-Identifier: Apache-2.0
//
// Constructs a machine from its options, and implements the functions that only a simulation has.
#include <algorithm>
#include <bit>
#include <fstream>

#include "ashlar/sim.h"
#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "device/sim/machine_impl.h"
#include "device/sim/sim_device.h"

namespace ashlar::sim {
namespace {

constexpr size_t kMinGranularityBytes = 64 * kKiB;  // the largest page size of supported hosts
constexpr size_t kAllocationAlignmentBytes = 512;

Status check(const Options& options) {
  if (options.device_count < 1 || options.device_count > kMaxDeviceCount) {
    return Status::invalid_argument(
        text("device_count: ", options.device_count, " (expected 1 to ", kMaxDeviceCount, ")"));
  }
  const size_t granularity = options.granularity_bytes;
  if (!std::has_single_bit(granularity) || granularity < kMinGranularityBytes) {
    return Status::invalid_argument(text("granularity_bytes: ", granularity,
                                         " (expected a power of two from ", kMinGranularityBytes,
                                         ")"));
  }
  if (options.capacity_bytes < granularity || options.capacity_bytes > kMaxCapacityBytes) {
    return Status::invalid_argument(text("capacity_bytes: ", options.capacity_bytes, " (expected ",
                                         granularity, " to ", kMaxCapacityBytes, ")"));
  }
  constexpr std::chrono::hours kMaxTimeout{1};
  if (options.ipc_timeout <= options.ipc_timeout.zero() || options.ipc_timeout > kMaxTimeout) {
    return Status::invalid_argument(
        text("ipc_timeout: ", options.ipc_timeout.count(), " ms (expected 1 ms to an hour)"));
  }
  return {};
}

// Returns the default limit on the runs of mappings of a machine (see address_space.h); at least
// kMinMappings. Each run takes one kernel entry and leaves at most one gap, which takes another
// entry. If vm.max_map_count permits, kReservedMappings entries are left for other code in the
// process.
size_t max_host_mappings() {
  constexpr size_t kReservedMappings = 8192;
  constexpr size_t kMinMappings = 1024;
  size_t limit = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit > kReservedMappings + 2 * kMinMappings ? (limit - kReservedMappings) / 2
                                                      : kMinMappings;
}

// Derives the UUID from the host's boot id, so that all processes on the host compute the same
// UUID.
std::array<uint8_t, 16> device_uuid(size_t index) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  uint64_t seed = 0;
  for (char c : boot) seed = Random(seed + static_cast<unsigned char>(c)).next();
  Random random(seed + index);
  std::array<uint8_t, 16> uuid{};
  for (uint8_t& byte : uuid) byte = static_cast<uint8_t>(random.next());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x80);  // UUID version 8 means custom
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

DeviceProperties describe_device(const Options& options, size_t index, size_t max_mappings) {
  const bool has_memory = options.backing == Backing::kMemory;
  DeviceProperties properties;
  properties.backend = "sim";
  properties.index = DeviceIndex(index);
  properties.name = has_memory ? "Ashlar simulated device" : "Ashlar simulated device, no bytes";
  properties.uuid = device_uuid(index);
  properties.capacity_bytes = options.capacity_bytes;
  properties.allocation_alignment_bytes = kAllocationAlignmentBytes;
  properties.has_virtual_memory = true;
  properties.granularity_bytes = options.granularity_bytes;
  properties.can_alias = true;
  properties.alias_probe = "works: simulated";
  properties.max_mappings = max_mappings == SIZE_MAX ? 0 : max_mappings;
  properties.can_export_fd = has_memory;
  properties.can_export_fabric = has_memory;
  properties.can_export_imported = has_memory;
  properties.can_share_allocations = has_memory;
  properties.has_stream_ordered_pool = true;
  properties.has_capture = true;
  properties.checks_stream_ids = true;
  properties.greatest_priority = 1;
  return properties;
}

}  // namespace

Machine::Impl::Impl(const Options& machine_options, size_t max_mappings,
                    std::unique_ptr<Clock> made_clock)
    : options(machine_options),
      own_clock(std::move(made_clock)),
      clock(own_clock ? *own_clock : *machine_options.clock),
      faults(machine_options.seed.value_or(0), clock),
      addresses(options, max_mappings),
      fabric(options.ipc_timeout),
      streams(options, clock) {}

Machine::Impl::~Impl() = default;

Result<std::unique_ptr<Machine>> Machine::try_create(const Options& options) {
  if (Status valid = check(options); !valid.ok()) return valid;
  std::unique_ptr<Clock> clock;
  if (options.clock == nullptr) {
    clock = options.seed ? std::unique_ptr<Clock>(std::make_unique<ManualClock>())
                         : std::make_unique<SteadyClock>();
  }
  const bool has_memory = options.backing == Backing::kMemory;
  const size_t requested = options.max_mappings;
  const size_t max_mappings = requested != 0 ? requested
                              : has_memory   ? max_host_mappings()
                                             : SIZE_MAX;
  auto impl = std::make_unique<Impl>(options, max_mappings, std::move(clock));
  for (size_t i = 0; i < options.device_count; ++i) {
    Result<std::unique_ptr<PhysicalMemory>> memory = PhysicalMemory::create(options);
    if (!memory.ok()) return memory.status();
    impl->memories.push_back(*std::move(memory));
    impl->devices.push_back(std::make_unique<SimDevice>(
        *impl, describe_device(options, i, max_mappings), *impl->memories.back()));
  }
  return std::unique_ptr<Machine>(new Machine(std::move(impl)));
}

Machine::Machine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Machine::~Machine() {
  if (!impl_->fork_guard.in_creating_process()) {
    // A forked child must not destroy the machine, because the child does not have the machine's
    // threads, and shares the machine's files with its parent.
    (void)impl_.release();
    return;
  }
  impl_->faults.release_hung_calls();
  impl_->streams.stop();
  for (const auto& device : impl_->devices) device->destroy_graph_objects();
}

size_t Machine::device_count() const { return impl_->devices.size(); }

Device& Machine::device(DeviceIndex index) {
  ASHLAR_CHECK(index.value() < device_count());
  return *impl_->devices[index.value()];
}

Clock& Machine::clock() { return impl_->clock; }

// --- device work and memory

Status Machine::try_launch(DeviceIndex device, StreamId stream, Kernel kernel) {
  if (device.value() >= device_count())
    return Status::invalid_argument(text("there is no device ", device));
  if (!kernel) return Status::invalid_argument("the kernel is empty");
  const bool has_memory = impl_->options.backing == Backing::kMemory;
  auto work = [this, device, has_memory, kernel = std::move(kernel)] {
    return has_memory ? kernel(DeviceMemory(*this, device)) : Status();
  };
  return impl_->devices[device.value()]->launch(stream, std::move(work));
}

DeviceMemory Machine::memory(DeviceIndex accessor) {
  ASHLAR_CHECK(accessor.value() < device_count());
  return DeviceMemory(*this, accessor);
}

Result<void*> DeviceMemory::bytes(DeviceAddress at, size_t wanted_bytes, Access access) const {
  return machine_.impl().devices[accessor_.value()]->view({at, wanted_bytes}, access);
}

void Machine::set_next_address(DeviceIndex device, DeviceAddress at) {
  impl_->addresses.set_next_address(device, at);
}

void Machine::set_address_policy(DeviceIndex device,
                                 std::function<DeviceAddress(size_t bytes)> choose) {
  impl_->addresses.set_address_policy(device, std::move(choose));
}

// --- scheduling

Status Machine::pause_stream(DeviceIndex device, StreamId stream) {
  if (device.value() >= device_count())
    return Status::invalid_argument(text("there is no device ", device));
  Result<std::shared_ptr<SimStream>> found = impl_->streams.find(device, stream);
  if (found.ok()) (*found)->pause();
  return found.status();
}

Status Machine::pause_stream_until_waited(DeviceIndex device, StreamId stream) {
  if (device.value() >= device_count())
    return Status::invalid_argument(text("there is no device ", device));
  Result<std::shared_ptr<SimStream>> found = impl_->streams.find(device, stream);
  if (found.ok()) (*found)->pause_until_waited();
  return found.status();
}

Status Machine::resume_stream(DeviceIndex device, StreamId stream) {
  if (device.value() >= device_count())
    return Status::invalid_argument(text("there is no device ", device));
  Result<std::shared_ptr<SimStream>> found = impl_->streams.find(device, stream);
  if (found.ok()) (*found)->resume();
  return found.status();
}

bool Machine::step() {
  Scheduler* scheduler = impl_->streams.scheduler();
  return scheduler != nullptr && scheduler->step();
}

// --- faults and cost

void Machine::inject(FaultRule rule) { impl_->faults.inject(std::move(rule)); }
void Machine::clear_faults() { impl_->faults.clear(); }
void Machine::release_hung_calls() { impl_->faults.release_hung_calls(); }
size_t Machine::hung_call_count() const { return impl_->faults.hung_call_count(); }

void Machine::lose(DeviceIndex device, Status reason) {
  ASHLAR_CHECK(device.value() < device_count());
  impl_->devices[device.value()]->lose(reason);
}

void Machine::revive(DeviceIndex device) {
  ASHLAR_CHECK(device.value() < device_count());
  impl_->devices[device.value()]->interceptor().revive();
}

CallCosts Machine::costs(DeviceIndex device) const {
  ASHLAR_CHECK(device.value() < device_count());
  return impl_->devices[device.value()]->interceptor().costs();
}

void Machine::reset_costs(DeviceIndex device) {
  ASHLAR_CHECK(device.value() < device_count());
  impl_->devices[device.value()]->interceptor().reset_costs();
}

}  // namespace ashlar::sim
