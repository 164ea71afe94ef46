// Settings that were tried, for people and for programs: what `ashlar tune` and `ashlar oom` share.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/tune.h"

namespace ashlar {

struct TrialTable {
  Origin origin{};               // of the run
  size_t lower_bound_bytes = 0;  // that peaks are compared with
  bool has_min_capacity = false;
};

// Those that allocators of the origin can be told come first, the others below a heading.
std::string trials_as_text(const std::vector<Trial>& trials, const TrialTable& table);
nlohmann::ordered_json trial_as_json(const Trial& trial);

// For a shell: PYTORCH_CUDA_ALLOC_CONF="…", or ASHLAR_ALLOC_CONF="…".
// REQUIRES: can_be_set(setting, origin).
std::string line_to_paste(const Setting& setting, Origin origin);

// What the paged engine would have done for a run of PyTorch's, and who gets it; ends in a line
// feed. Empty for runs of Ashlar's own, whose settings include it.
std::string paged_as_text(const TuneResult& result);

// Said wherever a run of PyTorch's is compared with the paged engine, so that nobody pastes it.
inline constexpr const char* kWhoGetsPaged =
    "Programs that allocate through Ashlar get it by default; PyTorch has no setting for it.";

}  // namespace ashlar
