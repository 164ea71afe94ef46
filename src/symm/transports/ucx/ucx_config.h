// SPDX-License-Identifier: Apache-2.0
//
// Converts UcxOptions to UCX's configuration, and UCX's errors to statuses.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "ashlar/ucx_transport.h"

namespace ashlar::symm {

struct UcxConfigDeleter {
  void operator()(ucp_config_t* config) const { ::ucp_config_release(config); }
};
using UcxConfig = std::unique_ptr<ucp_config_t, UcxConfigDeleter>;

// Returns the configuration from the variables UCX_..., with the given options instead of the
// variables of the same meaning. Does not change the environment. Returns kInvalidArgument if UCX
// rejects an option.
Result<UcxConfig> read_ucx_config(const UcxOptions& options);

// Returns the error of a UCX call. `what` describes the failed operation.
Status ucx_fault(std::string_view call, ucs_status_t status, const std::string& what);

}  // namespace ashlar::symm
