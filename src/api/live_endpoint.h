// SPDX-License-Identifier: Apache-2.0
//
// Serves the state of this process's allocators to `ashlar top`, `ashlar view --live` and
// Prometheus. Used by LiveServer, and by live_autostart.h if the environment requests it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/server_registry.h"
#include "ashlar/live.h"
#include "http/server.h"
#include "live/process_status.h"

namespace ashlar {

class LiveEndpoint {
 public:
  // Opens the Unix socket and, if `options` has a port, also the port. Observers see `warning`,
  // unless it is empty. kInvalidArgument: the token is not acceptable, or there is a token but no
  // port. kDeviceFault: the port is in use, or a system call failed.
  static Result<std::unique_ptr<LiveEndpoint>> open(const LiveOptions& options,
                                                    std::string warning = {});

  const std::string& socket_name() const { return socket_name_; }
  // Returns the URL of the endpoint; empty without a port.
  std::string url() const { return loopback_ == nullptr ? "" : loopback_->url(); }

  // Constructs an endpoint that does not serve yet. For `open` only; public for std::make_unique.
  explicit LiveEndpoint(std::string warning);

 private:
  Status open_socket();
  Status open_port(const LiveOptions& options);

  std::string socket_name_{};
  std::unique_ptr<live::StatusSource> status_source_;
  std::unique_ptr<http::Handler> handler_;
  // Destroyed in reverse order: registry entries before servers, servers before the handler.
  std::unique_ptr<http::Server> loopback_{};
  std::unique_ptr<http::Server> local_{};
  std::optional<ServerRegistry::Registration> loopback_registration_{};
  std::optional<ServerRegistry::Registration> local_registration_{};
};

}  // namespace ashlar
