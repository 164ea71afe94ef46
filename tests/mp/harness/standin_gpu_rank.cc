// SPDX-License-Identifier: Apache-2.0
//
// The stand-in driver has one device per rank; each rank uses its own device.
#include "mp/harness/standin_gpu_rank.h"

#include "base/text.h"
#include "base/units.h"

namespace ashlar::symm {

std::string StandinGpuRank::leftovers() const {
  std::string left;
  if (const size_t count = driver.multicast_count(); count != 0) {
    left += text(" [", count, " leaked multicast objects]");
  }
  if (const size_t count = driver.extent_count(); count != 0) {
    left += text(" [", count, " leaked extents]");
  }
  if (const size_t count = open_fd_count(); count != open_fds) {
    left += text(" [leaked descriptors: ", open_fds, " before, ", count, " after]");
  }
  return left;
}

RankMain on_standin_gpu(const std::function<StandinDriver(int rank)>& driver_of,
                        const StandinGpuBody& body) {
  return [driver_of, body](const RankSpec& rank) -> std::string {
    const StandinDriver wanted = driver_of(rank.rank);
    const standin::ControlTable& driver = standin::control_of(wanted.library);
    sim::Options options;
    options.device_count = static_cast<size_t>(rank.world_size);
    options.capacity_bytes = kGiB;
    driver.restart(options, wanted.features);
    const std::unique_ptr<DeviceSet> devices = *try_open_cuda({.library = wanted.library});
    Device& device = devices->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    warm_up(device);
    const StandinGpuRank own{rank, device, driver, open_fd_count()};
    std::string message;
    try {
      message = body(own);
    } catch (const std::exception& thrown) {
      message = thrown.what();
    }
    return message + own.leftovers();
  };
}

RankMain on_standin_gpu(const StandinGpuBody& body) {
  return on_standin_gpu([](int) { return StandinDriver(); }, body);
}

}  // namespace ashlar::symm
