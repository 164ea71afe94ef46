// SPDX-License-Identifier: Apache-2.0
//
// Detects the launcher by the environment variables it sets, and parses their values.
#include "config/launch_settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/text.h"
#include "config/numbers.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxWorldSize = 65536;

// The first launcher whose variables are set determines rank and size.
constexpr std::array kLaunchers = {
    LauncherVariables{"ASHLAR_RANK", "ASHLAR_WORLD_SIZE"},
    LauncherVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    LauncherVariables{"PMI_RANK", "PMI_SIZE"},
    LauncherVariables{"SLURM_PROCID", "SLURM_NTASKS"},
};

Status invalid_launch_value(std::string_view name, std::string_view value,
                            std::string_view expected) {
  return Status::invalid_argument(text(name, " is \"", value, "\" (expected ", expected, ")"));
}

// Returns the name of the job that the launcher gives, so that concurrent jobs on one store differ;
// nullopt if there is none. The name becomes part of store keys, so slashes and everything but
// printable ASCII characters are replaced.
std::optional<std::string> launcher_job(const Environment& environment) {
  std::string name;
  if (const auto space = environment.value("PMIX_NAMESPACE")) {
    name = *space;
  } else if (const auto id = environment.value("SLURM_JOB_ID")) {
    name = text(*id, '.', environment.value("SLURM_STEP_ID").value_or("0"));
  } else {
    return std::nullopt;
  }
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~' || c == '/'; }, '_');
  return name.substr(0, 64);
}

}  // namespace

Result<std::optional<LaunchedRank>> launched_rank_from(const Environment& environment,
                                                       std::span<const LauncherVariables> own) {
  std::vector<LauncherVariables> launchers(own.begin(), own.end());
  launchers.insert(launchers.end(), kLaunchers.begin(), kLaunchers.end());
  for (const LauncherVariables& each : launchers) {
    const std::optional<std::string_view> rank = environment.value(each.rank);
    const std::optional<std::string_view> size = environment.value(each.world_size);
    if (!rank && !size) continue;
    if (!rank || !size) {
      return Status::invalid_argument(text(rank ? each.rank : each.world_size, " is set, but not ",
                                           rank ? each.world_size : each.rank, ": set both"));
    }
    const std::optional<uint64_t> count = parse_whole_number(*size);
    if (!count || *count < 1 || *count > kMaxWorldSize) {
      return invalid_launch_value(each.world_size, *size,
                                  text("a whole number from 1 to ", kMaxWorldSize));
    }
    const std::optional<uint64_t> own_rank = parse_whole_number(*rank);
    if (!own_rank || *own_rank >= *count) {
      return invalid_launch_value(each.rank, *rank, text("a whole number from 0 to ", *count - 1));
    }
    return std::optional(LaunchedRank{static_cast<int>(*own_rank), static_cast<int>(*count)});
  }
  return std::optional<LaunchedRank>();
}

Result<LaunchSettings> launch_settings_from(const Environment& environment) {
  if (Status unknown = check_unknown_variables(environment); !unknown.ok()) return unknown;
  LaunchSettings settings;
  const Result<std::optional<LaunchedRank>> rank = launched_rank_from(environment, {});
  if (!rank.ok()) return rank.status();
  settings.rank = *rank;
  settings.has_pmix =
      environment.value("PMIX_RANK").has_value() && environment.value("PMIX_NAMESPACE").has_value();
  settings.store = environment.value("ASHLAR_STORE").value_or("");
  settings.token = environment.value("ASHLAR_STORE_TOKEN").value_or("");
  settings.token_file = environment.value("ASHLAR_STORE_TOKEN_FILE").value_or("");
  const std::string job = launcher_job(environment).value_or(settings.job);
  settings.job = environment.value("ASHLAR_JOB").value_or(job);
  return settings;
}

Result<LaunchSettings> launch_settings_of_process() {
  return launch_settings_from(Environment::of_process());
}

}  // namespace ashlar
