// SPDX-License-Identifier: Apache-2.0
//
// Opening a driver, and what it leaves behind.
#include "mp/gpu_rank.h"

#include <cstdlib>
#include <string_view>

#include "base/units.h"
#include "standin/control.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
bool is_on_hardware() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

std::unique_ptr<DeviceSet> open_under_test() {
  if (is_on_hardware()) return *open_cuda();
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kGiB;
  standin::control_of(ASHLAR_CUDA_STANDIN).restart(options, {});
  return *open_cuda({.library = ASHLAR_CUDA_STANDIN});
}

void warm_up(Device& device) {
  HeapOptions options = SymmetricRank::heap_options();
  options.device = &device;
  Heap heap(options);
  Group group = Group::join(heap, make_memory_store(), gpu_group_options({0, 1, nullptr}));
  Buffer buffer = heap.allocate(kMiB);
  const Handle handle = group.rendezvous(buffer, kPatience);
  group.leave(kPatience);
}

GroupOptions gpu_group_options(const BareRank& rank, bool may_share) {
  GroupOptions options = SymmetricRank::group_options(rank);
  options.may_share_device = may_share;
  return options;
}

// What a rank does on its device. A driver, once loaded, keeps descriptors of its own until the
// process ends, so that only those are counted here that come later.
BareBody on_gpu(const std::function<std::string(const BareRank& rank, Device& device)>& body) {
  return [body](const BareRank& rank) -> std::string {
    const std::unique_ptr<DeviceSet> devices = open_under_test();
    Device& device = devices->device(DeviceIndex(0));
    std::string said;
    warm_up(device);
    const size_t fds_before = open_fd_count();
    try {
      said = body(rank, device);
    } catch (const std::exception& thrown) {
      said = thrown.what();
    }
    if (open_fd_count() != fds_before) said += " [more descriptors are open]";
    return said;
  };
}

std::vector<std::string> outcomes_of(Ranks& ranks) {
  std::vector<std::string> said = ranks.outcomes();
  for (std::string& each : said) {
    const size_t drivers_own = each.find(" [descriptors are left open]");
    if (drivers_own != std::string::npos) each.erase(drivers_own);
  }
  return said;
}

void SymmetricGpuKernels::SetUp() {
  if (kernel_image() == nullptr) {
    GTEST_SKIP() << "built without nvcc and clang: there are no kernels";
  }
}

BareBody with_kernels(const KernelBody& body) {
  return on_gpu([body](const BareRank& rank, Device& device) -> std::string {
    RankOnDevice own(rank, device, gpu_group_options(rank));
    const std::string wrong = body(own);
    if (wrong.empty()) own.group.leave(kPatience);
    return wrong;
  });
}

CollectiveOptions patient(int64_t offset, void* out) {
  CollectiveOptions options;
  options.offset_bytes = offset;
  options.out = out;
  options.timeout = kPatience;
  return options;
}

}  // namespace ashlar::symm
