// SPDX-License-Identifier: Apache-2.0
//
// Showing this process's allocators: what is copied out of them, and the servers that tell it. For
// whoever asks for it by name (LiveServer), and for the environment (live_on_demand.cc).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/shown_servers.h"
#include "ashlar/live.h"
#include "http/server.h"
#include "live/process_status.h"

namespace ashlar {

class LiveShow {
 public:
  // `trouble`: what is told to whoever looks; empty: nothing.
  // kInvalidArgument: the token will not do. kDeviceFault: the port is taken, or the system
  // refuses.
  static Result<std::unique_ptr<LiveShow>> open(const LiveOptions& options,
                                                std::string trouble = {});

  const std::string& socket_name() const { return socket_name_; }
  // Empty without a port.
  std::string address() const { return loopback_ == nullptr ? "" : loopback_->address(); }

  // For open() alone.
  explicit LiveShow(std::string trouble);

 private:
  Status open_socket();
  Status open_port(const LiveOptions& options);

  std::string socket_name_{};
  std::unique_ptr<live::StatusSource> status_source_;
  std::unique_ptr<http::Handler> handler_;
  std::unique_ptr<http::Server> loopback_{};  // servers end first
  std::unique_ptr<http::Server> local_{};
  std::optional<ShownServers::Entry> loopback_entry_{};  // these before them
  std::optional<ShownServers::Entry> local_entry_{};
};

}  // namespace ashlar
