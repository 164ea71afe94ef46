// SPDX-License-Identifier: Apache-2.0
//
// UCX as the way to ranks on other machines. In a library of its own, ashlar::ucx, since the core
// needs no other's.
//
// Calls of others are checked, and need a token that was drawn for the memory; but whoever can
// reach a process' port speaks with UCX itself, which trusts. Use it in networks where that is
// nobody else.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar::symm {

class Transport;

struct UcxOptions {
  // As in UCX_TLS and UCX_NET_DEVICES, such as "tcp,self" and "eth0"; empty: what these say, or
  // what UCX chooses. The same on all ranks.
  std::string transports{};
  std::string devices{};
  // How long the transport's thread keeps looking after something came, before it sleeps.
  std::chrono::microseconds busy_poll{50};
};

// Opens this process' side and starts the thread that answers others. A child of a fork is
// refused whatever it asks of it (kInvalidArgument), and the end of its copy does nothing.
// kInvalidArgument: UCX does not take the options.
ASHLAR_EXPORT Result<std::shared_ptr<Transport>> open_ucx_transport(const UcxOptions& options);

}  // namespace ashlar::symm
