// SPDX-License-Identifier: Apache-2.0
//
// The live endpoint: copies the state of the process's allocators and serves it.
#include "ashlar/live.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "api/allocator_impl.h"
#include "api/allocator_registry.h"
#include "api/live_endpoint.h"
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

live::AllocatorStatus describe(uint64_t number, Allocator& allocator) {
  const DeviceProperties& device = allocator.device().properties();
  const AllocatorOptions& options = AllocatorAccess::impl(allocator).options;
  live::AllocatorStatus description;
  description.number = number;
  description.backend = device.backend;
  description.device = device.index.value();
  description.device_name = device.name;
  description.engine = engine_text(options.engine);
  description.options = format_options(options);
  description.capacity_bytes = device.capacity_bytes;
  description.is_history_on = allocator.history().is_recording();
  description.stats = allocator.stats();
  return description;
}

live::HostAllocatorStatus describe(uint64_t number, HostAllocator& allocator) {
  const DeviceProperties& device = allocator.device().properties();
  live::HostAllocatorStatus description;
  description.number = number;
  description.backend = device.backend;
  description.device = device.index.value();
  description.device_name = device.name;
  description.stats = allocator.stats();
  return description;
}

// Copies the state of all registered allocators.
class ProcessStatusSource final : public live::StatusSource {
 public:
  explicit ProcessStatusSource(std::string warning) : warning_(std::move(warning)) {}

  live::ProcessStatus status() override {
    live::ProcessStatus process;
    process.pid = ::getpid();
    process.program = ::program_invocation_short_name;
    process.version = ashlar_version();
    process.monitored_seconds = std::chrono::duration<double>(steady_clock::now() - start_).count();
    process.problem = warning_;
    for (const uint64_t number : allocator_numbers()) {
      DeviceAllocatorRegistry::instance().visit(number, [&](Allocator& allocator) {
        process.allocators.push_back(describe(number, allocator));
      });
    }
    HostAllocatorRegistry& host_registry = HostAllocatorRegistry::instance();
    for (const uint64_t number : host_registry.numbers()) {
      host_registry.visit(number, [&](HostAllocator& allocator) {
        process.host_allocators.push_back(describe(number, allocator));
      });
    }
    return process;
  }

  std::vector<uint64_t> allocator_numbers() override {
    return DeviceAllocatorRegistry::instance().numbers();
  }

  Result<Snapshot> snapshot(const SnapshotRequest& request) override {
    Snapshot snapshot;
    const auto take = [&](Allocator& allocator) {
      SnapshotOptions options;
      options.include_traces = request.include_traces;
      options.since_us = request.since_us;
      snapshot = allocator.snapshot(options);
    };
    if (DeviceAllocatorRegistry::instance().visit(request.allocator, take)) return snapshot;
    return Status::invalid_argument(text("there is no allocator ", request.allocator));
  }

 private:
  const std::string warning_;
  const steady_clock::time_point start_ = steady_clock::now();
};

// Responds with status 503 if handling a request throws: an observer whose requests exhaust host
// memory must not terminate the process. Requests with a body need no guard, because LiveHandler
// accepts none.
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

// Permits few connections with short timeouts, because each connection is a thread of the observed
// process.
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
  // The message must not contain the token.
  return Status::invalid_argument(
      text("a token of ", token.size(),
           " characters (expected 16 to 128 letters, digits, - and _): generate one with "
           "head -c 16 /dev/urandom | xxd -p"));
}

}  // namespace

LiveEndpoint::LiveEndpoint(std::string warning)
    : status_source_(std::make_unique<ProcessStatusSource>(std::move(warning))),
      handler_(std::make_unique<GuardedHandler>(*status_source_)) {}

Result<std::unique_ptr<LiveEndpoint>> LiveEndpoint::open(const LiveOptions& options,
                                                         std::string warning) {
  if (!options.port && !options.token.empty()) {
    return Status::invalid_argument("a token without a port: the Unix socket needs none");
  }
  auto endpoint = std::make_unique<LiveEndpoint>(std::move(warning));
  if (options.port) {
    if (Status opened = endpoint->open_port(options); !opened.ok()) return opened;
  }
  if (Status opened = endpoint->open_socket(); !opened.ok()) return opened;
  return endpoint;
}

Status LiveEndpoint::open_port(const LiveOptions& options) {
  http::ServerOptions server_settings = server_options();
  server_settings.port = *options.port;
  Result<std::string> token = options.token.empty() ? http::generate_token() : options.token;
  if (!token.ok()) return token.status();
  server_settings.token = *std::move(token);
  if (Status checked = check_token(server_settings.token); !checked.ok()) return checked;
  Result<std::unique_ptr<http::Server>> server =
      http::Server::start(*handler_, std::move(server_settings));
  if (!server.ok()) return server.status();
  loopback_ = *std::move(server);
  loopback_registration_.emplace(*loopback_);
  return {};
}

Status LiveEndpoint::open_socket() {
  Result<std::string> name = live::generate_socket_name();
  if (!name.ok()) return name.status();
  socket_name_ = *std::move(name);
  http::ServerOptions server_settings = server_options();
  server_settings.local_name = socket_name_;
  Result<std::unique_ptr<http::Server>> server =
      http::Server::start(*handler_, std::move(server_settings));
  if (!server.ok()) return server.status();
  local_ = *std::move(server);
  local_registration_.emplace(*local_);
  return {};
}

struct LiveServer::Impl {
  std::unique_ptr<LiveEndpoint> endpoint;
};

LiveServer::LiveServer(const LiveOptions& options)
    : impl_(std::make_unique<Impl>(Impl{unwrap(LiveEndpoint::open(options))})) {}

LiveServer::~LiveServer() = default;

const std::string& LiveServer::socket_name() const { return impl_->endpoint->socket_name(); }
std::string LiveServer::url() const { return impl_->endpoint->url(); }

}  // namespace ashlar
