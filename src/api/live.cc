// SPDX-License-Identifier: Apache-2.0
//
// What is shown of this process, and to whom.
#include "ashlar/live.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "api/allocator_parts.h"
#include "api/live_show.h"
#include "api/shown_allocators.h"
#include "api/unwrap.h"
#include "ashlar/c/ashlar.h"
#include "base/text.h"
#include "config/allocator_options.h"
#include "http/server.h"
#include "http/tokens.h"
#include "live/discovery.h"
#include "live/live_handler.h"

namespace ashlar {
namespace {

using std::chrono::steady_clock;

live::AllocatorStatus shown(uint64_t number, Allocator& allocator) {
  const DeviceProperties& device = allocator.device().properties();
  const AllocatorOptions& options = AllocatorParts::of(allocator).options;
  live::AllocatorStatus shown;
  shown.number = number;
  shown.backend = device.backend;
  shown.device = device.index.value();
  shown.device_name = device.name;
  shown.engine = engine_text(options.engine);
  shown.options = format_options(options);
  shown.capacity_bytes = device.capacity_bytes;
  shown.is_history_on = allocator.is_history_on();
  shown.stats = allocator.stats();
  return shown;
}

live::HostAllocatorStatus shown(uint64_t number, HostAllocator& allocator) {
  const DeviceProperties& device = allocator.device().properties();
  live::HostAllocatorStatus shown;
  shown.number = number;
  shown.backend = device.backend;
  shown.device = device.index.value();
  shown.device_name = device.name;
  shown.stats = allocator.stats();
  return shown;
}

class ProcessStatusSource final : public live::StatusSource {
 public:
  explicit ProcessStatusSource(std::string trouble) : trouble_(std::move(trouble)) {}

  live::ProcessStatus status() override {
    live::ProcessStatus process;
    process.pid = ::getpid();
    process.program = ::program_invocation_short_name;
    process.version = ashlar_version();
    process.monitored_seconds =
        std::chrono::duration<double>(steady_clock::now() - beginning_).count();
    process.problem = trouble_;
    for (const uint64_t number : allocator_numbers()) {
      ShownAllocators::of_process().visit(number, [&](Allocator& allocator) {
        process.allocators.push_back(shown(number, allocator));
      });
    }
    ShownHostAllocators& hosts = ShownHostAllocators::of_process();
    for (const uint64_t number : hosts.numbers()) {
      hosts.visit(number, [&](HostAllocator& allocator) {
        process.host_allocators.push_back(shown(number, allocator));
      });
    }
    return process;
  }

  std::vector<uint64_t> allocator_numbers() override {
    return ShownAllocators::of_process().numbers();
  }

  Result<Snapshot> snapshot(const SnapshotRequest& request) override {
    Snapshot taken;
    const auto take = [&](Allocator& allocator) {
      SnapshotOptions options;
      options.include_traces = request.include_traces;
      options.since_us = request.since_us;
      taken = allocator.snapshot(options);
    };
    if (ShownAllocators::of_process().visit(request.allocator, take)) return taken;
    return Status::invalid_argument(text("there is no allocator ", request.allocator));
  }

 private:
  const std::string trouble_;
  const steady_clock::time_point beginning_ = steady_clock::now();
};

// Whoever watches must not end the process: where the host has no memory for an answer, there is
// none.
class GuardedHandler final : public http::Handler {
 public:
  explicit GuardedHandler(live::StatusSource& source) : handler_(source) {}

  http::Response handle(const http::Request& request) override {
    try {
      return handler_.handle(request);
    } catch (const std::exception& failure) {
      return http::error_response(503, failure.what());
    }
  }
  uint64_t max_body_bytes(const http::Request& request) const override {
    return handler_.max_body_bytes(request);
  }
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override {
    return handler_.handle(request, std::move(body));
  }

 private:
  live::LiveHandler handler_;
};

// Few are answered at a time, and nobody for long: each is a thread of somebody else's process.
http::ServerOptions server_options() {
  http::ServerOptions options;
  options.limits.max_connections = 8;
  options.limits.timeout = std::chrono::seconds(5);
  return options;
}

Status check_token(const std::string& token) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  const bool is_good = token.size() >= 16 && token.size() <= 128 &&
                       std::all_of(token.begin(), token.end(), is_plain);
  if (is_good) return {};
  // The token itself stands in no message.
  return Status::invalid_argument(
      text("the token of ", token.size(),
           " characters will not do (expected 16 to 128 letters, digits, - and "
           "_): head -c 16 /dev/urandom | xxd -p makes a good one"));
}

}  // namespace

LiveShow::LiveShow(std::string trouble)
    : status_source_(std::make_unique<ProcessStatusSource>(std::move(trouble))),
      handler_(std::make_unique<GuardedHandler>(*status_source_)) {}

Result<std::unique_ptr<LiveShow>> LiveShow::open(const LiveOptions& options, std::string trouble) {
  if (!options.port && !options.token.empty()) {
    return Status::invalid_argument("a token without a port: the Unix socket needs none");
  }
  auto show = std::make_unique<LiveShow>(std::move(trouble));
  if (options.port) {
    if (Status opened = show->open_port(options); !opened.ok()) return opened;
  }
  if (Status opened = show->open_socket(); !opened.ok()) return opened;
  return show;
}

Status LiveShow::open_port(const LiveOptions& options) {
  http::ServerOptions request = server_options();
  request.port = *options.port;
  Result<std::string> token = options.token.empty() ? http::generate_token() : options.token;
  if (!token.ok()) return token.status();
  request.token = *std::move(token);
  if (Status checked = check_token(request.token); !checked.ok()) return checked;
  Result<std::unique_ptr<http::Server>> server = http::Server::start(*handler_, std::move(request));
  if (!server.ok()) return server.status();
  loopback_ = *std::move(server);
  loopback_entry_.emplace(*loopback_);
  return {};
}

Status LiveShow::open_socket() {
  Result<std::string> name = live::generate_socket_name();
  if (!name.ok()) return name.status();
  socket_name_ = *std::move(name);
  http::ServerOptions request = server_options();
  request.local_name = socket_name_;
  Result<std::unique_ptr<http::Server>> server = http::Server::start(*handler_, std::move(request));
  if (!server.ok()) return server.status();
  local_ = *std::move(server);
  local_entry_.emplace(*local_);
  return {};
}

// --- for programs --------------------------------------------------------------------------------

struct LiveServer::Parts {
  std::unique_ptr<LiveShow> show;
};

LiveServer::LiveServer(const LiveOptions& options)
    : parts_(std::make_unique<Parts>(Parts{unwrap(LiveShow::open(options))})) {}

LiveServer::~LiveServer() = default;

const std::string& LiveServer::socket_name() const { return parts_->show->socket_name(); }
std::string LiveServer::address() const { return parts_->show->address(); }

}  // namespace ashlar
