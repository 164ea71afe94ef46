// SPDX-License-Identifier: Apache-2.0
//
// Opens the store of a job, as configured in the environment, or finds it through PMIx.
#pragma once

#include <string>
#include <string_view>

#include "ashlar/deadline.h"
#include "ashlar/launch.h"
#include "ashlar/status.h"
#include "config/launch_settings.h"
#include "symm/stores/tcp/tcp_socket.h"

namespace ashlar::symm {

inline constexpr std::string_view kTcpScheme = "tcp://";

// Errors are those of try_job_from_environment.
Result<Job> find_job(const LaunchSettings& settings, Deadline deadline);

// Parses "tcp://host:port" or "tcp://[address]:port". kInvalidArgument: the text is malformed.
Result<TcpAddress> parse_tcp_address(std::string_view given);

// Returns the token in a file, without surrounding whitespace. kInvalidArgument: the file is not a
// regular file, belongs to a user other than this one and root, can be accessed by other users, or
// does not contain a valid token. kDeviceFault: the file cannot be read.
Result<std::string> read_token_file(const std::string& path);

}  // namespace ashlar::symm
