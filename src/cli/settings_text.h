// Settings that were tried, for people and for programs: what `ashlar tune` and `ashlar oom` share.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "analysis/tune.h"

namespace ashlar {

struct TrialTable {
  size_t lower_bound_bytes = 0;  // that peaks are compared with
  bool has_min_capacity = false;
};

std::string trials_as_text(const std::vector<Trial>& trials, const TrialTable& table);
nlohmann::ordered_json trial_as_json(const Trial& trial);

// For a shell: PYTORCH_CUDA_ALLOC_CONF="…".
std::string line_to_paste(const Setting& setting);

}  // namespace ashlar
