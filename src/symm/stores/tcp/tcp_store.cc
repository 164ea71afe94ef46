// SPDX-License-Identifier: Apache-2.0
//
// The client of a TCP store. Connections run one request at a time and are pooled. If one breaks,
// the request is sent again on another until the deadline.
//
// The server is untrusted: the size and the content of every response are checked.
#include "ashlar/tcp_store.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "base/text.h"
#include "symm/stores/store_helpers.h"
#include "symm/stores/tcp/store_message.h"
#include "symm/stores/tcp/tcp_socket.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMaxReconnectPause{50};
// A call with an expired deadline still makes one attempt, which may take this long.
constexpr milliseconds kMinAttemptTime{100};
// How long the response to a kWait may take in addition to the requested wait.
constexpr milliseconds kWaitReserve{1000};

class TcpStore final : public Store {
 public:
  explicit TcpStore(TcpStoreOptions options) : options_(std::move(options)) {}

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override;
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override;
  Result<bool> erase(std::string_view key, Deadline deadline) override;

  // Connects, and keeps the connection for the first request.
  Status connect_first(Deadline deadline) ASHLAR_EXCLUDES(mutex_);
  void wait_for_change(std::chrono::nanoseconds max_wait) override;

 private:
  // A failed attempt that is repeated, unless `is_permanent`.
  template <typename Value>
  struct Attempt {
    Result<Value> value;
    bool is_permanent = false;
  };

  Result<StoreResponse> run(const StoreRequest& request, Deadline deadline);
  Attempt<StoreResponse> try_run(const std::string& bytes, Deadline deadline);
  Attempt<UniqueFd> connect(Deadline deadline) const;
  UniqueFd take_connection() ASHLAR_EXCLUDES(mutex_);
  void return_connection(UniqueFd connection) ASHLAR_EXCLUDES(mutex_);
  std::string address() const {
    return text("the store at ", TcpAddress{options_.host, options_.port}.to_string());
  }

  const TcpStoreOptions options_;
  const ForkGuard fork_guard_;
  // The version of the store that the last try_get has seen. Relaxed order suffices: a stale value
  // only ends a wait early.
  std::atomic<uint64_t> version_{0};
  Mutex mutex_;
  std::vector<UniqueFd> idle_connections_ ASHLAR_GUARDED_BY(mutex_);
};

Deadline attempt_deadline(Deadline deadline) {
  const Deadline least = Deadline::after(kMinAttemptTime);
  return least.at() > deadline.at() ? least : deadline;
}

Status TcpStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                     Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  StoreRequest request{.call = StoreCall::kSet, .keys = {std::string(key)}};
  request.value = value;
  request.time_to_live_ms = time_to_live.count();
  return run(request, deadline).status();
}

Result<std::vector<std::optional<std::string>>> TcpStore::try_get(std::span<const std::string> keys,
                                                                  Deadline deadline) {
  for (const std::string& key : keys) {
    if (Status good = check_key(key); !good.ok()) return good;
  }
  std::vector<std::optional<std::string>> values;
  while (values.size() < keys.size()) {
    const auto left = keys.subspan(values.size());
    const auto part = left.first(std::min(left.size(), kMaxRequestKeys));
    StoreRequest request{.call = StoreCall::kTryGet, .keys = {part.begin(), part.end()}};
    Result<StoreResponse> response = run(request, deadline);
    if (!response.ok()) return response.status();
    if (response->values.empty() || response->values.size() > part.size()) {
      return Status::format(
          text(address(), " sent ", response->values.size(), " values for ", part.size(), " keys"));
    }
    if (values.empty()) {
      version_.store(static_cast<uint64_t>(response->number), std::memory_order_relaxed);
    }
    std::move(response->values.begin(), response->values.end(), std::back_inserter(values));
  }
  return values;
}

Result<int64_t> TcpStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                              Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  StoreRequest request{.call = StoreCall::kAdd, .keys = {std::string(key)}};
  request.amount = amount;
  request.time_to_live_ms = time_to_live.count();
  if (::getrandom(&request.receipt, sizeof(Receipt), 0) != static_cast<ssize_t>(sizeof(Receipt))) {
    return Status::device_fault("getrandom", errno, "no random bytes for a receipt");
  }
  const Result<StoreResponse> response = run(request, deadline);
  if (!response.ok()) return response.status();
  return response->number;
}

Result<bool> TcpStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const Result<StoreResponse> response =
      run({.call = StoreCall::kErase, .keys = {std::string(key)}}, deadline);
  if (!response.ok()) return response.status();
  return response->number != 0;
}

// Waits on the server. If it cannot be reached, sleeps instead: the next call reports the error.
void TcpStore::wait_for_change(std::chrono::nanoseconds max_wait) {
  const auto wait = std::chrono::ceil<milliseconds>(
      std::min<std::chrono::nanoseconds>(max_wait, std::chrono::seconds(60)));
  StoreRequest request{.call = StoreCall::kWait};
  request.version = version_.load(std::memory_order_relaxed);
  request.wait_ms = static_cast<uint32_t>(wait.count());
  if (try_run(serialize(request), Deadline::after(wait + kWaitReserve)).value.ok()) return;
  std::this_thread::sleep_for(max_wait);
}

Status TcpStore::connect_first(Deadline deadline) {
  StoreRequest request{.call = StoreCall::kTryGet, .keys = {"ashlar"}};
  return run(request, deadline).status();
}

Result<StoreResponse> TcpStore::run(const StoreRequest& request, Deadline deadline) {
  const std::string bytes = serialize(request);
  std::chrono::nanoseconds pause = milliseconds(1);
  for (;;) {
    Attempt<StoreResponse> attempt = try_run(bytes, attempt_deadline(deadline));
    if (attempt.value.ok()) {
      if (!attempt.value->status.ok()) return attempt.value->status;
      return std::move(attempt.value);
    }
    if (attempt.is_permanent) return attempt.value.status();
    if (deadline.has_passed()) {
      return Status::timeout(text(
          address(), " did not respond before the deadline: ", attempt.value.status().message()));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxReconnectPause);
  }
}

TcpStore::Attempt<StoreResponse> TcpStore::try_run(const std::string& bytes, Deadline deadline) {
  UniqueFd connection = take_connection();
  if (!connection.valid()) {
    Attempt<UniqueFd> opened = connect(deadline);
    if (!opened.value.ok()) return {opened.value.status(), opened.is_permanent};
    connection = *std::move(opened.value);
  }
  if (Status sent = send_all(connection.get(), bytes, deadline); !sent.ok()) return {sent};
  const Result<std::string> body = receive_frame(connection.get(), kMaxResponseBytes, deadline);
  if (!body.ok()) return {body.status(), body.status().is(StatusKind::kFormat)};
  Result<StoreResponse> response = parse_response(*body);
  if (!response.ok()) return {response.status(), true};
  return_connection(std::move(connection));
  return {std::move(response)};
}

TcpStore::Attempt<UniqueFd> TcpStore::connect(Deadline deadline) const {
  Result<UniqueFd> socket = connect_tcp({options_.host, options_.port}, deadline);
  if (!socket.ok()) return {socket.status()};
  const std::string hello = serialize({.call = StoreCall::kHello, .token = options_.token});
  if (Status sent = send_all(socket->get(), hello, deadline); !sent.ok()) return {sent};
  const Result<std::string> body = receive_frame(socket->get(), kMaxHelloBytes, deadline);
  if (!body.ok()) {
    if (!body.status().is(StatusKind::kFormat)) return {body.status()};
    return {Status::format(text(address(), " is not an Ashlar store")), true};
  }
  const Result<StoreResponse> response = parse_response(*body);
  if (!response.ok()) return {Status::format(text(address(), " is not an Ashlar store")), true};
  if (!response->status.ok()) {
    return {Status::device_fault("connect", 0,
                                 text(address(), " refused: ", response->status.message())),
            true};
  }
  return {std::move(socket)};
}

// Returns an invalid descriptor if no connection is idle, and always in a forked child, which must
// not use its parent's connections.
UniqueFd TcpStore::take_connection() {
  if (!fork_guard_.in_creating_process()) return {};
  MutexLock lock(mutex_);
  if (idle_connections_.empty()) return {};
  UniqueFd connection = std::move(idle_connections_.back());
  idle_connections_.pop_back();
  return connection;
}

void TcpStore::return_connection(UniqueFd connection) {
  if (!fork_guard_.in_creating_process()) return;
  MutexLock lock(mutex_);
  idle_connections_.push_back(std::move(connection));
}

// A store and its server.
class HostedTcpStore final : public Store {
 public:
  HostedTcpStore(std::shared_ptr<TcpStoreServer> server, std::unique_ptr<TcpStore> store,
                 milliseconds linger)
      : server_(std::move(server)), store_(std::move(store)), linger_(linger) {}
  ~HostedTcpStore() override {
    store_.reset();
    server_->wait_for_disconnects(0, Deadline::after(linger_));
  }

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override {
    return store_->set(key, value, time_to_live, deadline);
  }
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    return store_->try_get(keys, deadline);
  }
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override {
    return store_->add(key, amount, time_to_live, deadline);
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return store_->erase(key, deadline);
  }

 protected:
  void wait_for_change(std::chrono::nanoseconds max_wait) override {
    store_->wait_for_change(max_wait);
  }

 private:
  const std::shared_ptr<TcpStoreServer> server_;  // not shared with others
  std::unique_ptr<TcpStore> store_;
  const milliseconds linger_;
};

Result<std::unique_ptr<TcpStore>> open_client(const TcpStoreOptions& options, Deadline deadline) {
  if (!is_valid_token(options.token)) {
    return Status::invalid_argument(text("a store token of ", options.token.size(),
                                         " characters: expected ", kMinTokenBytes, " to ",
                                         kMaxTokenBytes, " printable characters without spaces"));
  }
  auto store = std::make_unique<TcpStore>(options);
  if (Status connected = store->connect_first(deadline); !connected.ok()) return connected;
  return store;
}

}  // namespace

TcpStoreServer::~TcpStoreServer() = default;

Result<std::shared_ptr<Store>> try_open_tcp_store(const TcpStoreOptions& options,
                                                  Deadline deadline) {
  Result<std::unique_ptr<TcpStore>> store = open_client(options, deadline);
  if (!store.ok()) return store.status();
  return std::shared_ptr<Store>(*std::move(store));
}

Result<HostedStore> try_host_tcp_store(const TcpStoreServerOptions& options, milliseconds linger) {
  Result<std::shared_ptr<TcpStoreServer>> server = try_start_tcp_store_server(options);
  if (!server.ok()) return server.status();
  constexpr std::chrono::seconds kOwnConnectTimeout{10};
  Result<std::unique_ptr<TcpStore>> store =
      open_client({.host = options.host, .port = (*server)->port(), .token = options.token},
                  Deadline::after(kOwnConnectTimeout));
  if (!store.ok()) return store.status();
  HostedStore hosted;
  hosted.port = (*server)->port();
  hosted.store = make_fork_guarded<HostedTcpStore>(*std::move(server), *std::move(store), linger);
  return hosted;
}

}  // namespace ashlar::symm
