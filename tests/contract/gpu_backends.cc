// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the device contract for the vendors' back ends: on stand-in drivers, or with
// ASHLAR_TEST_DEVICE=cuda on the real CUDA driver.
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/devices.h"
#include "device_contract.h"
#include "standin/control.h"

namespace ashlar::contract {
namespace {

class OpenedDevices final : public MachineUnderTest {
 public:
  explicit OpenedDevices(std::shared_ptr<DeviceSet> devices) : devices_(std::move(devices)) {}
  size_t device_count() const override { return devices_->device_count(); }
  Device& device(DeviceIndex index) override { return devices_->device(index); }

 private:
  std::shared_ptr<DeviceSet> devices_;  // shared between tests
};

using OpenResult = Result<std::unique_ptr<MachineUnderTest>>;

OpenResult machine_with(std::shared_ptr<DeviceSet> devices) {
  return std::unique_ptr<MachineUnderTest>(std::make_unique<OpenedDevices>(std::move(devices)));
}

void restart_standin(const char* library, size_t granularity_bytes,
                     const standin::Features& features) {
  sim::Options options;
  options.device_count = 2;
  options.capacity_bytes = size_t{1} << 30;
  options.granularity_bytes = granularity_bytes;
  standin::control_of(library).restart(options, features);
}

OpenResult open_cuda_stand_in(size_t granularity_bytes, const standin::Features& features) {
  restart_standin(ASHLAR_CUDA_STANDIN, granularity_bytes, features);
  return machine_with(require_ok(
      try_open_cuda({.library = ASHLAR_CUDA_STANDIN, .monitor_library = ASHLAR_CUDA_STANDIN})));
}

OpenResult open_hip_stand_in(const standin::Features& features) {
  restart_standin(ASHLAR_HIP_STANDIN, size_t{64} << 10, features);
  return machine_with(require_ok(try_open_hip({.library = ASHLAR_HIP_STANDIN})));
}

// Opens AMD devices that are presented as cuda devices.
OpenResult open_hip_as_cuda() {
  restart_standin(ASHLAR_HIP_STANDIN, size_t{2} << 20, {});
  return machine_with(
      require_ok(try_open_accelerators({.cuda = {.library = "libashlar_no_such_driver.so"},
                                        .hip = {.library = ASHLAR_HIP_STANDIN}})));
}

// All tests share the devices, because creating a context is slow.
OpenResult open_real_cuda() {
  static const std::shared_ptr<DeviceSet> devices = require_ok(try_open_cuda());
  if (devices->device_count() == 0) return Status::unsupported("the driver shows no device");
  return machine_with(devices);
}

// Upper limit of the memory that the driver and its kernel libraries use for themselves.
constexpr size_t kRealSlackBytes = size_t{16} << 20;

std::vector<BackendUnderTest> backends() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  if (wanted != nullptr && std::string_view(wanted) == "cuda") {
    return {{"Cuda", open_real_cuda, kRealSlackBytes}};
  }
  standin::Features minimal;
  minimal.alias = standin::AliasBehavior::kRefused;
  minimal.export_fd = minimal.export_fabric = minimal.share_allocations =
      minimal.stream_ordered_pool = minimal.reserve_alignment = minimal.read_only_access = false;
  standin::Features plain = minimal;
  plain.virtual_memory = false;
  const size_t coarse = size_t{2} << 20;
  const size_t fine = size_t{64} << 10;
  return {
      {"CudaStandIn", [=] { return open_cuda_stand_in(coarse, {}); }},
      {"CudaStandInMinimal", [=] { return open_cuda_stand_in(fine, minimal); }},
      {"HipStandIn", [=] { return open_hip_stand_in({}); }},
      {"HipStandInPlain", [=] { return open_hip_stand_in(plain); }},
      {"HipAsCuda", open_hip_as_cuda},
  };
}

auto all_backends() { return testing::ValuesIn(backends()); }

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, IdentityContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, MemoryContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, VirtualMemoryContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, SharingContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PeersContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, HostMemoryContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, StreamsContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EventsContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, WorkContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PoolContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CaptureContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CaptureRulesContract, all_backends(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ConcurrencyContract, all_backends(), backend_name);

}  // namespace ashlar::contract
