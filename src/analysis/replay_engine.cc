// SPDX-License-Identifier: Apache-2.0
//
// An engine of ours, and no other.
#include "analysis/replay_engine.h"

#include "engine/make_engine.h"

namespace ashlar {

Status make_replayed(Device& device, const AllocatorOptions& options, Clock& clock,
                     std::unique_ptr<Engine>& engine) {
  if (!options.plugin.library.empty()) {
    return Status::invalid_argument(
        "a run cannot be replayed with a plug-in (expected no plugin_library)");
  }
  Result<std::unique_ptr<Engine>> made = make_engine(device, options, &clock);
  if (!made.ok()) return made.status();
  engine = *std::move(made);
  return {};
}

}  // namespace ashlar
