// SPDX-License-Identifier: Apache-2.0
//
// Defines the handle format and the import protocol, and serves importers on a thread.
#include "device/sim/fabric.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/fd_passing.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "base/thread.h"

namespace ashlar::sim {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'A', 'S', 'H', 'F'};
constexpr uint8_t kVersion = 1;

// The layout of a handle. Reserved bytes must be zero.
struct HandleLayout {
  std::array<uint8_t, 4> magic{};
  uint8_t version = 0;
  uint8_t kind = 0;
  std::array<uint8_t, 2> reserved{};
  uint32_t pid = 0;  // exporter's PID in its own PID namespace; for error messages only
  std::array<uint8_t, 16> socket_name{};
  std::array<uint8_t, 16> secret{};
  std::array<uint8_t, 20> reserved_tail{};
};
static_assert(sizeof(HandleLayout) == sizeof(HandleBytes));

// The importer's request and the exporter's response, which carries the descriptor.
struct ImportRequest {
  std::array<uint8_t, 16> secret{};
  uint8_t kind = 0;
};
struct ImportResponse {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: the exporter does not know the secret, or the memory was released
};

template <typename T>
std::span<uint8_t> bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<uint8_t*>(&value), sizeof(T)};
}

bool generate_secret(std::array<uint8_t, 16>& secret) {
  return ::getrandom(secret.data(), secret.size(), 0) == static_cast<ssize_t>(secret.size());
}

std::string socket_name(const std::array<uint8_t, 16>& name) {
  std::string made = "ashlar-fabric-";
  for (uint8_t byte : name) {
    made += "0123456789abcdef"[byte >> 4];
    made += "0123456789abcdef"[byte & 15];
  }
  return made;
}

Result<HandleLayout> parse(const HandleBytes& handle, HandleKind kind) {
  HandleLayout layout;
  std::memcpy(&layout, handle.data(), sizeof(layout));
  if (layout.magic != kMagic)
    return Status::invalid_argument("these 64 bytes are not a simulated handle");
  if (layout.version != kVersion) {
    return Status::invalid_argument(
        text("the handle is of version ", int{layout.version}, ", this is ", int{kVersion}));
  }
  if (layout.kind != static_cast<uint8_t>(kind)) {
    return Status::invalid_argument(kind == HandleKind::kExtent
                                        ? "this is the handle of an allocation, not of an extent"
                                        : "this is the handle of an extent, not of an allocation");
  }
  if (layout.reserved != HandleLayout().reserved ||
      layout.reserved_tail != HandleLayout().reserved_tail) {
    return Status::invalid_argument("the handle is malformed: reserved bytes are not zero");
  }
  return layout;
}

Status import_error(uint32_t pid, const Status& why) {
  return Status::device_fault(why.failed_call().empty() ? "import" : why.failed_call(), why.code(),
                              text("cannot import memory from process ", pid, ": ", why.message()));
}

}  // namespace

Fabric::~Fabric() {
  std::thread server;
  {
    MutexLock lock(mutex_);
    server.swap(server_);
    const uint64_t one = 1;
    if (stop_.valid()) (void)!::write(stop_.get(), &one, sizeof(one));
  }
  if (server.joinable()) server.join();
}

Result<HandleBytes> Fabric::export_extent(const std::shared_ptr<Extent>& extent, HandleKind kind) {
  MutexLock lock(mutex_);
  if (Status started = start_locked(); !started.ok()) return started;
  drop_expired_locked();
  Secret secret{};
  const auto known = secrets_.find({extent.get(), kind});
  // The entry may belong to a destroyed extent that had the same address.
  if (known != secrets_.end() && exports_.at(known->second).extent.lock() == extent) {
    secret = known->second;
  } else {
    if (!generate_secret(secret))
      return Status::device_fault("getrandom", errno, "no random bytes");
    // If host memory runs out, every entry of `exports_` must still have one in `secrets_`, and
    // vice versa.
    const auto added = exports_.emplace(secret, Export{extent, kind}).first;
    ScopeGuard undo([&]() ASHLAR_REQUIRES(mutex_) { exports_.erase(added); });
    const auto [entry, is_new] = secrets_.try_emplace({extent.get(), kind}, secret);
    undo.dismiss();
    if (!is_new) {
      exports_.erase(entry->second);
      entry->second = secret;
    }
  }
  HandleLayout layout;
  layout.magic = kMagic;
  layout.version = kVersion;
  layout.kind = static_cast<uint8_t>(kind);
  layout.pid = static_cast<uint32_t>(::getpid());
  layout.socket_name = name_;
  layout.secret = secret;
  HandleBytes handle{};
  std::memcpy(handle.data(), &layout, sizeof(layout));
  return handle;
}

Result<std::shared_ptr<Extent>> Fabric::import_extent(const HandleBytes& handle, HandleKind kind) {
  Result<HandleLayout> layout = parse(handle, kind);
  if (!layout.ok()) return layout.status();
  if (is_own(layout->socket_name)) {
    std::shared_ptr<Extent> exported = find_export(layout->secret, kind);
    return exported ? Result(exported)
                    : import_error(layout->pid, Status::invalid_argument("it was released"));
  }
  Result<UniqueFd> connection = connect_abstract(socket_name(layout->socket_name), timeout_);
  if (!connection.ok()) return import_error(layout->pid, connection.status());
  Result<PeerCredentials> peer = peer_credentials(connection->get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != ::getuid())
    return Status::invalid_argument("the exporter belongs to another user");

  ImportRequest request{layout->secret, static_cast<uint8_t>(kind)};
  Status sent = send_message(connection->get(), bytes_of(request), -1, timeout_);
  if (!sent.ok()) return import_error(layout->pid, sent);
  ImportResponse response;
  Result<ReceivedMessage> received =
      receive_message(connection->get(), bytes_of(response), timeout_);
  if (!received.ok()) return import_error(layout->pid, received.status());
  if (received->bytes != sizeof(response) || response.bytes == 0 || !received->fd.valid()) {
    return import_error(layout->pid, Status::invalid_argument("it was released"));
  }
  return PhysicalMemory::import_range(received->fd.get(), response.offset, response.bytes);
}

// --- exporter

Status Fabric::start_locked() {
  if (server_.joinable()) return {};
  if (!generate_secret(name_)) return Status::device_fault("getrandom", errno, "no random bytes");
  Result<UniqueFd> listening = listen_abstract(socket_name(name_));
  if (!listening.ok()) return listening.status();
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return Status::device_fault("eventfd", errno, std::strerror(errno));
  listening_ = *std::move(listening);
  stop_ = std::move(stop);
  Result<std::thread> server = start_thread([this] { serve(); });
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return {};
}

void Fabric::serve() {
  int listening = -1;
  int stop = -1;
  {
    MutexLock lock(mutex_);
    listening = listening_.get();
    stop = stop_.get();
  }
  run_steps([&] { return serve_once(listening, stop); }, [&] { return is_readable_now(stop); });
}

// Waits for a connection and handles it. Returns false when the server stops.
bool Fabric::serve_once(int listening_fd, int stop_fd) {
  Result<UniqueFd> connection = accept_or_stop(listening_fd, stop_fd);
  if (!connection.ok()) {
    // The process probably has no descriptors left. The connection stays pending, so an immediate
    // retry would fail too.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true;
  }
  if (!connection->valid()) return false;
  handle_connection(connection->get());
  return true;
}

// Handles one request. Connections from other users and malformed requests get no response.
void Fabric::handle_connection(int connection_fd) {
  Result<PeerCredentials> peer = peer_credentials(connection_fd);
  if (!peer.ok() || peer->uid != ::getuid()) return;
  ImportRequest request;
  // Importers are served one at a time, so a slow importer must not block the other importers.
  constexpr std::chrono::milliseconds kImporterTimeout{50};
  Result<ReceivedMessage> received =
      receive_message(connection_fd, bytes_of(request), kImporterTimeout);
  if (!received.ok() || received->bytes != sizeof(request)) return;
  const std::shared_ptr<Extent> extent =
      find_export(request.secret, static_cast<HandleKind>(request.kind));
  ImportResponse response;
  if (extent != nullptr) response = {extent->offset(), extent->bytes()};
  // A failure is ignored, because the importer may have closed the connection.
  (void)send_message(connection_fd, bytes_of(response), extent ? extent->fd() : -1,
                     kImporterTimeout)
      .ok();
}

std::shared_ptr<Extent> Fabric::find_export(const Secret& secret, HandleKind kind) {
  MutexLock lock(mutex_);
  const auto found = exports_.find(secret);
  if (found == exports_.end() || found->second.kind != kind) return nullptr;
  return found->second.extent.lock();
}

bool Fabric::is_own(const Secret& name) {
  MutexLock lock(mutex_);
  return server_.joinable() && name == name_;
}

// Removes expired exports, but only once the table has doubled in size since the last removal, so
// that the amortized number of visited entries per export is constant.
void Fabric::drop_expired_locked() {
  if (exports_.size() < sweep_threshold_) return;
  std::erase_if(secrets_, [&](const auto& known) ASHLAR_REQUIRES(mutex_) {
    const bool expired = exports_.at(known.second).extent.expired();
    if (expired) exports_.erase(known.second);
    return expired;
  });
  sweep_threshold_ = 2 * exports_.size() + 64;
}

}  // namespace ashlar::sim
