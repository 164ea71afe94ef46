// SPDX-License-Identifier: Apache-2.0
//
// Contains the measured costs, and interpolates between them.
#include "device/sim/cost_model.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/units.h"

namespace ashlar::sim {
namespace {

constexpr size_t kSizeCount = 5;
constexpr std::array<double, kSizeCount> kMeasuredBytes = {
    double(2 * kMiB), double(20 * kMiB), double(256 * kMiB), double(kGiB), double(8 * kGiB)};

// Microseconds for each size in kMeasuredBytes.
using Row = std::array<double, kSizeCount>;
constexpr Row kAllocateUs = {49, 63, 79, 96, 435};
constexpr Row kFreeUs = {47, 59, 141, 546, 3827};
constexpr Row kReserveUs = {1.0, 4.0, 2.0, 2.0, 2.0};
constexpr Row kCreateUs = {11.8, 12.6, 10.4, 28, 130};
constexpr Row kMapUs = {1.3, 1.3, 0.9, 1.7, 2.3};
constexpr Row kSetAccessUs = {27, 33, 62, 85, 316};
constexpr Row kUnmapUs = {23, 20, 24, 38, 95};
constexpr Row kReleaseUs = {15, 19, 81, 552, 5369};
constexpr Row kExportFdUs = {1100, 1100, 1100, 1500, 1500};
constexpr Row kFreeAddressesUs = {0.8, 2.2, 2.3, 2.3, 2.2};

// The cost grows with the number of extents in the range: set_access on 512 extents of 2 MiB took
// 17.6 ms.
constexpr double kSetAccessUsPerExtent = 34.4;
constexpr double kUnmapUsPerExtent = 23;

// The cost of pinning and unpinning is proportional to the size.
constexpr double kAllocateHostUsPerMiB = 350;
constexpr double kFreeHostUsPerMiB = 93;

// Interpolates linearly in the logarithm of the size. The result is constant below the smallest
// measured size, and proportional to the size above the largest measured size.
double interpolate(const Row& row, size_t bytes) {
  const double size = static_cast<double>(bytes);
  if (size <= kMeasuredBytes.front()) return row.front();
  if (size >= kMeasuredBytes.back()) return row.back() * (size / kMeasuredBytes.back());
  size_t right = 1;
  while (kMeasuredBytes[right] < size) ++right;
  const double fraction = std::log(size / kMeasuredBytes[right - 1]) /
                          std::log(kMeasuredBytes[right] / kMeasuredBytes[right - 1]);
  return row[right - 1] + fraction * (row[right] - row[right - 1]);
}

double cost_of_extents(const Row& row, double per_extent, const CallSize& size) {
  const double single_extent = interpolate(row, size.bytes);
  if (size.extents <= 1) return single_extent;
  return std::max(single_extent, per_extent * static_cast<double>(size.extents));
}

double per_mib(double us, size_t bytes) {
  return us * static_cast<double>(bytes) / static_cast<double>(kMiB);
}

double modelled_us(DeviceCall call, const CallSize& size) {
  switch (call) {
    case DeviceCall::kAllocate: return interpolate(kAllocateUs, size.bytes);
    case DeviceCall::kFree: return interpolate(kFreeUs, size.bytes);
    case DeviceCall::kReserve: return interpolate(kReserveUs, size.bytes);
    case DeviceCall::kCreate: return interpolate(kCreateUs, size.bytes);
    case DeviceCall::kMap: return interpolate(kMapUs, size.bytes);
    case DeviceCall::kSetAccess: return cost_of_extents(kSetAccessUs, kSetAccessUsPerExtent, size);
    case DeviceCall::kUnmap: return cost_of_extents(kUnmapUs, kUnmapUsPerExtent, size);
    case DeviceCall::kRelease: return interpolate(kReleaseUs, size.bytes);
    case DeviceCall::kExportFd: return interpolate(kExportFdUs, size.bytes);
    case DeviceCall::kFreeAddresses: return interpolate(kFreeAddressesUs, size.bytes);
    case DeviceCall::kImportFd: return 18.8;
    case DeviceCall::kAllocateHost: return per_mib(kAllocateHostUsPerMiB, size.bytes);
    case DeviceCall::kFreeHost: return per_mib(kFreeHostUsPerMiB, size.bytes);
    case DeviceCall::kMemoryStats: return 5.0;
    case DeviceCall::kCreateStream: return 2.7;
    case DeviceCall::kSynchronizeStream: return 0.55;
    case DeviceCall::kSynchronizeDevice: return 0.3;
    case DeviceCall::kIsIdle: return 0.1;
    case DeviceCall::kCreateEvent: return 0.4;
    case DeviceCall::kRecordEvent: return 0.45;
    case DeviceCall::kIsDone: return 0.41;
    case DeviceCall::kWaitEvent: return 0.3;
    case DeviceCall::kFill: return 1.7;
    case DeviceCall::kAllocateAsync: return 0.5;
    case DeviceCall::kFreeAsync: return 0.5;
    default: return 0;
  }
}

}  // namespace

int64_t modelled_call_ns(DeviceCall call, const CallSize& size) {
  return std::llround(modelled_us(call, size) * 1000);
}

int64_t modelled_transfer_ns(TransferPath path, size_t bytes) {
  constexpr double kStartNs = 2000;
  const double bytes_per_ns = path == TransferPath::kHostLink ? 50 : 2000;
  return std::llround(kStartNs + static_cast<double>(bytes) / bytes_per_ns);
}

}  // namespace ashlar::sim
