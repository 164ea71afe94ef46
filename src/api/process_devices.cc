// SPDX-License-Identifier: Apache-2.0
//
// Opens the registry of devices on first use.
#include "api/process_devices.h"

#include <memory>
#include <utility>

#include "base/text.h"
#include "config/environment.h"

namespace ashlar {
namespace {

Result<Registry> open_registry() {
  Result<sim::Options> sim = sim_options_from(Environment::of_process());
  if (!sim.ok()) return sim.status();
  Drivers drivers = drivers_from(Environment::of_process());
  return Registry::create(
      {.sim = *std::move(sim), .cuda = std::move(drivers.cuda), .hip = std::move(drivers.hip)});
}

}  // namespace

Result<const Registry*> process_registry() {
  // Never destroyed: at exit, device memory is left to the driver.
  static const Result<Registry>* const opened =
      std::make_unique<const Result<Registry>>(open_registry()).release();
  if (!opened->ok()) return opened->status();
  return &opened->value();
}

Result<Device*> process_device(std::string_view backend, size_t index) {
  const Result<const Registry*> registry = process_registry();
  if (!registry.ok()) return registry.status();
  const Backend* found = (*registry)->find(backend);
  if (found == nullptr) {
    std::string names;
    for (const Backend& each : (*registry)->backends()) {
      names += text(names.empty() ? "" : ", ", each.name());
    }
    return Status::invalid_argument(
        text("unknown back end ", backend, " (expected one of ", names, ")"));
  }
  if (!found->is_available()) return found->availability();
  if (index >= found->devices().size()) {
    return Status::invalid_argument(text("back end ", backend, " has no device ", index,
                                         " (it has ", found->devices().size(), ")"));
  }
  return found->devices()[index];
}

}  // namespace ashlar
