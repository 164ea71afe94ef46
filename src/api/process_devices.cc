// SPDX-License-Identifier: Apache-2.0
//
// Opens the registry of devices on first use.
#include "api/process_devices.h"

#include <memory>
#include <utility>

#include "base/fork_guard.h"
#include "base/mutex.h"
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

Mutex registry_mutex;
// Null until the first call. Never destroyed: at exit, device memory is left to the driver.
const Result<Registry>* opened_registry ASHLAR_GUARDED_BY(registry_mutex) = nullptr;

// Runs in a forked child, which must not use the devices of its parent. Replaces the mutex, because
// a thread of the parent may have locked it.
void reset_registry() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  std::construct_at(&registry_mutex);
  opened_registry = nullptr;
}

}  // namespace

Result<const Registry*> process_registry() {
  MutexLock lock(registry_mutex);
  if (opened_registry == nullptr) {
    static const bool resets_after_fork = [] {
      run_in_forked_children(reset_registry);
      return true;
    }();
    static_cast<void>(resets_after_fork);
    opened_registry = std::make_unique<const Result<Registry>>(open_registry()).release();
  }
  if (!opened_registry->ok()) return opened_registry->status();
  return &opened_registry->value();
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
