// SPDX-License-Identifier: Apache-2.0
//
// A stand-in with a device for every rank, of which each rank uses its own.
#include "mp/own_gpu_rank.h"

#include "base/text.h"
#include "base/units.h"

namespace ashlar::symm {

std::string OwnGpuRank::leftovers() const {
  std::string left;
  if (const size_t count = driver.multicast_count(); count != 0) {
    left += text(" [", count, " multicast objects are left]");
  }
  if (const size_t count = driver.extent_count(); count != 0) {
    left += text(" [", count, " extents are left]");
  }
  if (const size_t count = open_fd_count(); count != open_fds) {
    left += text(" [", open_fds, " descriptors were open, and ", count, " are left]");
  }
  return left;
}

BareBody on_own_gpu(const std::function<OwnDriver(int rank)>& driver_of, const OwnGpuBody& body) {
  return [driver_of, body](const BareRank& rank) -> std::string {
    const OwnDriver wanted = driver_of(rank.rank);
    const standin::ControlTable& driver = standin::control_of(wanted.library);
    sim::Options options;
    options.device_count = static_cast<size_t>(rank.world_size);
    options.capacity_bytes = kGiB;
    driver.restart(options, wanted.abilities);
    const std::unique_ptr<DeviceSet> devices = *open_cuda({.library = wanted.library});
    Device& device = devices->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    warm_up(device);
    const OwnGpuRank own{rank, device, driver, open_fd_count()};
    std::string said;
    try {
      said = body(own);
    } catch (const std::exception& thrown) {
      said = thrown.what();
    }
    return said + own.leftovers();
  };
}

BareBody on_own_gpu(const OwnGpuBody& body) {
  return on_own_gpu([](int) { return OwnDriver(); }, body);
}

}  // namespace ashlar::symm
