// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the device contract for two simulated devices, which are small enough to be filled.
// Streams run on threads.
#include <utility>

#include "ashlar/sim.h"
#include "device_contract.h"

namespace ashlar::contract {
namespace {

class SimulatedMachine final : public MachineUnderTest {
 public:
  explicit SimulatedMachine(std::unique_ptr<sim::Machine> machine) : machine_(std::move(machine)) {}
  size_t device_count() const override { return machine_->device_count(); }
  Device& device(DeviceIndex index) override { return machine_->device(index); }

 private:
  std::unique_ptr<sim::Machine> machine_;
};

BackendUnderTest simulated(std::string name, size_t granularity_bytes) {
  return {std::move(name),
          [granularity_bytes]() -> Result<std::unique_ptr<MachineUnderTest>> {
            sim::Options options;
            options.device_count = 2;
            options.capacity_bytes = size_t{1} << 30;
            options.granularity_bytes = granularity_bytes;
            options.max_mappings = 2048;
            Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
            if (!machine.ok()) return machine.status();
            return std::unique_ptr<MachineUnderTest>(
                std::make_unique<SimulatedMachine>(*std::move(machine)));
          },
          /*accounting_slack_bytes=*/0};
}

// The machines have two granularities, so that tests do not assume a certain granularity.
auto simulated_machines() {
  return testing::Values(simulated("Sim", size_t{2} << 20), simulated("SimFine", size_t{64} << 10));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Device, IdentityContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, MemoryContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, VirtualMemoryContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, SharingContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, PeersContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, HostMemoryContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, StreamsContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, EventsContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, WorkContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, PoolContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, CaptureContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, CaptureRulesContract, simulated_machines(), backend_name);
INSTANTIATE_TEST_SUITE_P(Device, ConcurrencyContract, simulated_machines(), backend_name);

}  // namespace ashlar::contract
