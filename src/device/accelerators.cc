// SPDX-License-Identifier: Apache-2.0
//
// Combines the devices of all vendors in one set, under the back end name cuda.
#include <array>
#include <charconv>
#include <vector>

#include "ashlar/devices.h"
#include "base/check.h"
#include "base/text.h"
#include "device/presented_device.h"

namespace ashlar {
namespace {

using Sets = std::vector<std::unique_ptr<DeviceSet>>;

// The back end name of all devices. try_parse_accelerator accepts any of kSpellings instead.
constexpr std::string_view kPublicName = "cuda";
constexpr std::string_view kSpellings[] = {kPublicName, "hip"};

class Accelerators final : public DeviceSet {
 public:
  explicit Accelerators(Sets sets) : sets_(std::move(sets)) {
    size_t all_device_count = 0;
    for (const auto& set : sets_) all_device_count += set->device_count();
    for (const auto& set : sets_) {
      const Presentation presentation{kPublicName, DeviceIndex(devices_.size()),
                                      set->device_count(), all_device_count};
      for (size_t i = 0; i < set->device_count(); ++i) {
        devices_.push_back(std::make_unique<PresentedDevice>(set->device(DeviceIndex(i)),
                                                             DeviceIndex(i), presentation));
      }
    }
  }

  size_t device_count() const override { return devices_.size(); }
  Device& device(DeviceIndex index) override {
    ASHLAR_CHECK(index.value() < devices_.size());
    return *devices_[index.value()];
  }
  std::string_view driver(DeviceIndex index) const override {
    ASHLAR_CHECK(index.value() < devices_.size());
    size_t first = 0;
    for (const auto& set : sets_) {
      const size_t offset = index.value() - first;
      if (offset < set->device_count()) return set->driver(DeviceIndex(offset));
      first += set->device_count();
    }
    return kPublicName;
  }

 private:
  Sets sets_;
  std::vector<std::unique_ptr<PresentedDevice>> devices_;  // wrappers of the devices in sets_
};

}  // namespace

Result<std::unique_ptr<DeviceSet>> try_open_accelerators(const AcceleratorOptions& options) {
  Sets sets;
  std::string reasons;
  std::array<Result<std::unique_ptr<DeviceSet>>, 2> all = {try_open_cuda(options.cuda),
                                                           try_open_hip(options.hip)};
  for (Result<std::unique_ptr<DeviceSet>>& opened : all) {
    if (opened.ok()) {
      sets.push_back(*std::move(opened));
    } else {
      reasons += text(reasons.empty() ? "" : "; ", opened.status().message());
    }
  }
  if (sets.empty()) return Status::unsupported(reasons);
  return std::unique_ptr<DeviceSet>(std::make_unique<Accelerators>(std::move(sets)));
}

Result<DeviceIndex> try_parse_accelerator(std::string_view name) {
  const auto refuse = [&] {
    return Status::invalid_argument(text("\"", name, "\" is not an accelerator (expected ",
                                         kPublicName, " or ", kPublicName, ":0, ", kPublicName,
                                         ":1, …)"));
  };
  for (const std::string_view spelling : kSpellings) {
    if (!name.starts_with(spelling)) continue;
    std::string_view rest = name.substr(spelling.size());
    if (rest.empty()) return DeviceIndex(0);
    if (rest.front() != ':') return refuse();
    rest.remove_prefix(1);
    uint64_t index = 0;
    const char* end = rest.data() + rest.size();
    const auto [stopped, error] = std::from_chars(rest.data(), end, index);
    if (rest.empty() || error != std::errc() || stopped != end) return refuse();
    return DeviceIndex(index);
  }
  return refuse();
}

}  // namespace ashlar
