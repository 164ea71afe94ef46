// SPDX-License-Identifier: Apache-2.0
//
// The device contract on the vendors' back ends: on stand-in drivers, or with
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

using Opened = Result<std::unique_ptr<MachineUnderTest>>;

Opened under_test(std::shared_ptr<DeviceSet> devices) {
  return std::unique_ptr<MachineUnderTest>(std::make_unique<OpenedDevices>(std::move(devices)));
}

void restart(const char* library, size_t granularity_bytes, const standin::Features& features) {
  sim::Options options;
  options.device_count = 2;
  options.capacity_bytes = size_t{1} << 30;
  options.granularity_bytes = granularity_bytes;
  standin::control_of(library).restart(options, features);
}

Opened open_cuda_stand_in(size_t granularity_bytes, const standin::Features& features) {
  restart(ASHLAR_CUDA_STANDIN, granularity_bytes, features);
  return under_test(require_ok(
      try_open_cuda({.library = ASHLAR_CUDA_STANDIN, .monitor_library = ASHLAR_CUDA_STANDIN})));
}

Opened open_hip_stand_in(const standin::Features& features) {
  restart(ASHLAR_HIP_STANDIN, size_t{64} << 10, features);
  return under_test(require_ok(try_open_hip({.library = ASHLAR_HIP_STANDIN})));
}

// AMD devices presented as cuda.
Opened open_hip_as_cuda() {
  restart(ASHLAR_HIP_STANDIN, size_t{2} << 20, {});
  return under_test(
      require_ok(try_open_accelerators({.cuda = {.library = "libashlar_no_such_driver.so"},
                                        .hip = {.library = ASHLAR_HIP_STANDIN}})));
}

// Shared by all tests, because creating a context is slow.
Opened open_real() {
  static const std::shared_ptr<DeviceSet> devices = require_ok(try_open_cuda());
  if (devices->device_count() == 0) return Status::unsupported("the driver shows no device");
  return under_test(devices);
}

// Memory that the driver and its kernel libraries use for themselves.
constexpr size_t kRealSlackBytes = size_t{16} << 20;

std::vector<BackendUnderTest> backends() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  if (wanted != nullptr && std::string_view(wanted) == "cuda") {
    return {{"Cuda", open_real, kRealSlackBytes}};
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

auto all() { return testing::ValuesIn(backends()); }

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, IdentityContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, MemoryContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, VirtualMemoryContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, SharingContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PeersContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, HostMemoryContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, StreamsContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, EventsContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, WorkContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, PoolContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CaptureContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CaptureRulesContract, all(), backend_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ConcurrencyContract, all(), backend_name);

}  // namespace ashlar::contract
