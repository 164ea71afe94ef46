// SPDX-License-Identifier: Apache-2.0
//
// Provides UCX as the transport to ranks on other machines. It is in a separate library,
// ashlar::ucx, which requires UCX.
//
// Security: calls from peers are validated and must carry the random token of the memory region,
// but UCX itself neither authenticates the hosts that connect to it nor checks what they send: a
// few bytes that are not a UCX message can end the process. Use UCX in trusted networks only, and
// select the devices of these networks with UcxOptions::devices.
//
// Errors: functions throw; their `try_` forms return a Result.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar::symm {

class Transport;

struct UcxOptions {
  // The transports that UCX may use, in the format of UCX_TLS, such as "tcp,self". If empty, the
  // environment variable UCX_TLS applies; if that is unset too, UCX chooses. Must be the same on
  // all ranks.
  std::string transports{};
  // The network devices that UCX may use, in the format of UCX_NET_DEVICES, such as "eth0". UCX
  // listens on all of them; "lo" admits only processes on this machine. If empty, the environment
  // variable UCX_NET_DEVICES applies; if that is unset too, UCX uses all devices.
  std::string devices{};
  // How long the progress thread keeps polling after activity before it sleeps.
  std::chrono::microseconds busy_poll{50};
};

// Opens a transport of this process. The transport opens its sockets and starts its progress thread
// when a group with ranks on several machines is joined. Throws InvalidArgument if UCX rejects the
// options, and DeviceError if a call of UCX or of the system fails. In the child of a fork, every
// call on the transport fails with kInvalidArgument, and destroying it does nothing.
ASHLAR_EXPORT Result<std::shared_ptr<Transport>> try_open_ucx_transport(const UcxOptions& options);
inline std::shared_ptr<Transport> open_ucx_transport(const UcxOptions& options) {
  return try_open_ucx_transport(options).value();
}

}  // namespace ashlar::symm
