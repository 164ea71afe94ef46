// SPDX-License-Identifier: Apache-2.0
//
// Settings of a process that belongs to a job of several ranks, from the environment: its rank, the
// number of ranks, and the store through which they rendezvous. `ashlar run`, mpirun, srun and
// other launchers set these variables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "config/environment.h"

namespace ashlar {

// The variables in which a launcher passes the rank and the number of ranks.
struct LauncherVariables {
  std::string_view rank;
  std::string_view world_size;
};

struct LaunchedRank {
  int rank = 0;
  int world_size = 1;
};

struct LaunchSettings {
  std::optional<LaunchedRank> rank{};  // nullopt if no variable is set
  bool has_pmix = false;               // the launcher provides PMIx
  std::string store{};                 // a folder or tcp://host:port; empty if none is set
  std::string token{};                 // of a TCP store
  std::string token_file{};            // a file with the token; used if `token` is empty
  std::string job = "job";             // without slashes
};

// Parses the settings. kInvalidArgument: a value is wrong, a variable that another variable
// requires is missing, or check_unknown_variables fails. No message contains the token.
Result<LaunchSettings> launch_settings_from(const Environment& environment);
// Parses the settings in the environment of this process.
Result<LaunchSettings> launch_settings_of_process();

// Returns the rank from the variables in `own` or else from those of a known launcher; nullopt if
// none of these variables is set. kInvalidArgument: a value is wrong, or a launcher set the rank
// without the number of ranks or vice versa.
Result<std::optional<LaunchedRank>> launched_rank_from(const Environment& environment,
                                                       std::span<const LauncherVariables> own);

}  // namespace ashlar
