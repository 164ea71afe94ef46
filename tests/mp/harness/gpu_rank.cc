// SPDX-License-Identifier: Apache-2.0
//
// Opens the driver and excludes the driver's own descriptors from leak checks.
#include "mp/harness/gpu_rank.h"

#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/units.h"
#include "standin/control.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
bool is_on_hardware() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

std::unique_ptr<DeviceSet> open_test_devices() {
  if (is_on_hardware()) return *try_open_cuda();
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kGiB;
  standin::control_of(ASHLAR_CUDA_STANDIN).restart(options, {});
  return *try_open_cuda({.library = ASHLAR_CUDA_STANDIN});
}

void warm_up(Device& device) {
  HeapOptions options = SymmetricRank::heap_options();
  options.device = &device;
  Heap heap(options);
  Group group = Group::join(heap, make_memory_store(), gpu_group_options({0, 1, nullptr}));
  SymmetricBuffer buffer = heap.allocate(kMiB);
  const Handle handle = group.rendezvous(buffer, kTestTimeout);
  group.leave(kTestTimeout);
}

GroupOptions gpu_group_options(const RankSpec& rank, bool may_share) {
  GroupOptions options = SymmetricRank::group_options(rank);
  options.may_share_device = may_share;
  return options;
}

// Waits, because the device releases the memory of destroyed graphs in a thread of its own. The
// descriptors of a lost device stay open.
static bool fd_count_becomes(size_t expected, Device& device) {
  const Deadline deadline = Deadline::after(kTestTimeout);
  while (open_fd_count() != expected) {
    const bool is_lost = device.synchronize_device().is(StatusKind::kDeviceLost);
    if (is_lost || deadline.has_passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

RankMain on_gpu(const std::function<std::string(const RankSpec& rank, Device& device)>& body) {
  return [body](const RankSpec& rank) -> std::string {
    const std::unique_ptr<DeviceSet> devices = open_test_devices();
    Device& device = devices->device(DeviceIndex(0));
    std::string message;
    warm_up(device);
    const size_t fds_before = open_fd_count();
    try {
      message = body(rank, device);
    } catch (const std::exception& thrown) {
      message = thrown.what();
    }
    if (!fd_count_becomes(fds_before, device)) message += " [leaked descriptors of the rank]";
    return message;
  };
}

std::vector<std::string> gpu_results(RankProcesses& ranks) {
  std::vector<std::string> message = ranks.results();
  for (std::string& each : message) {
    const size_t drivers_own = each.find(" [leaked descriptors]");
    if (drivers_own != std::string::npos) each.erase(drivers_own);
  }
  return message;
}

void SymmetricGpuKernels::SetUp() {
  if (kernel_image() == nullptr) {
    GTEST_SKIP() << "this build has no GPU kernels (neither nvcc nor clang)";
  }
}

RankMain with_kernels(const KernelBody& body) {
  return on_gpu([body](const RankSpec& rank, Device& device) -> std::string {
    DeviceRank own(rank, device, gpu_group_options(rank));
    const std::string wrong = body(own);
    if (wrong.empty()) own.group.leave(kTestTimeout);
    return wrong;
  });
}

CollectiveOptions with_test_timeout(int64_t offset, void* out) {
  CollectiveOptions options;
  options.offset_bytes = offset;
  options.out = out;
  options.timeout = kTestTimeout;
  return options;
}

}  // namespace ashlar::symm
