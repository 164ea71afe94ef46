// SPDX-License-Identifier: Apache-2.0
//
// Handles, the socket behind them, and the short conversation across it.
#include "device/sim/fabric.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/fd_passing.h"
#include "base/text.h"
#include "base/thread.h"

namespace ashlar::sim {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'A', 'S', 'H', 'F'};
constexpr uint8_t kVersion = 1;

// The handle, byte by byte; what is not named is zero, and must be.
struct Layout {
  std::array<uint8_t, 4> magic{};
  uint8_t version = 0;
  uint8_t kind = 0;
  std::array<uint8_t, 2> zero{};
  uint32_t pid = 0;  // as the exporter sees itself; for messages only
  std::array<uint8_t, 16> socket_name{};
  std::array<uint8_t, 16> secret{};
  std::array<uint8_t, 20> rest{};
};
static_assert(sizeof(Layout) == sizeof(HandleBytes));

// What an importer asks with, and what it is answered together with the descriptor.
struct Question {
  std::array<uint8_t, 16> secret{};
  uint8_t kind = 0;
};
struct Answer {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: there is no such memory (any more)
};

template <typename T>
std::span<uint8_t> bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<uint8_t*>(&value), sizeof(T)};
}

bool draw_secret(std::array<uint8_t, 16>& secret) {
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

Result<Layout> parse(const HandleBytes& handle, HandleKind kind) {
  Layout layout;
  std::memcpy(&layout, handle.data(), sizeof(layout));
  if (layout.magic != kMagic)
    return Status::invalid_argument("these 64 bytes are not a simulated handle");
  if (layout.version != kVersion) {
    return Status::invalid_argument(
        text("the handle is of version ", int{layout.version}, ", this is ", int{kVersion}));
  }
  if (layout.kind != static_cast<uint8_t>(kind)) {
    return Status::invalid_argument(kind == HandleKind::kExtent
                                        ? "the handle stands for an allocation, not for an extent"
                                        : "the handle stands for an extent, not for an allocation");
  }
  if (layout.zero != Layout().zero || layout.rest != Layout().rest) {
    return Status::invalid_argument("the handle has bytes set where none belong");
  }
  return layout;
}

Status exporter_gone(uint32_t pid, const Status& why) {
  return Status::device_fault(
      why.call().empty() ? "import" : why.call(), why.code(),
      text("the exporter (process ", pid, ") did not give the memory: ", why.message()));
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
  forget_expired_locked();
  Secret secret{};
  const auto known = secrets_.find({extent.get(), kind});
  // Another extent may have lived at the same place before.
  if (known != secrets_.end() && exports_.at(known->second).extent.lock() == extent) {
    secret = known->second;
  } else {
    if (!draw_secret(secret)) return Status::device_fault("getrandom", errno, "no random bytes");
    if (known != secrets_.end()) exports_.erase(known->second);
    exports_[secret] = {extent, kind};
    secrets_[{extent.get(), kind}] = secret;
  }
  Layout layout;
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
  Result<Layout> layout = parse(handle, kind);
  if (!layout.ok()) return layout.status();
  if (is_own(layout->socket_name)) {
    std::shared_ptr<Extent> own = find_export(layout->secret, kind);
    return own ? Result(own)
               : exporter_gone(layout->pid, Status::invalid_argument("it has released it"));
  }
  Result<UniqueFd> connection = connect_abstract(socket_name(layout->socket_name), timeout_);
  if (!connection.ok()) return exporter_gone(layout->pid, connection.status());
  Result<PeerCredentials> peer = peer_credentials(connection->get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != ::getuid())
    return Status::invalid_argument("the handle's exporter is another user");

  Question question{layout->secret, static_cast<uint8_t>(kind)};
  Status asked = send_message(connection->get(), bytes_of(question), -1, timeout_);
  if (!asked.ok()) return exporter_gone(layout->pid, asked);
  Answer answer;
  Result<ReceivedMessage> received = receive_message(connection->get(), bytes_of(answer), timeout_);
  if (!received.ok()) return exporter_gone(layout->pid, received.status());
  if (received->bytes != sizeof(answer) || answer.bytes == 0 || !received->fd.valid()) {
    return exporter_gone(layout->pid, Status::invalid_argument("it has released it"));
  }
  return PhysicalMemory::import_part(received->fd.get(), answer.offset, answer.bytes);
}

// --- the exporter's side
// ----------------------------------------------------------------------------

Status Fabric::start_locked() {
  if (server_.joinable()) return {};
  if (!draw_secret(name_)) return Status::device_fault("getrandom", errno, "no random bytes");
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
  for (;;) {
    Result<UniqueFd> connection = accept_or_stop(listening, stop);
    if (!connection.ok()) {
      // Out of descriptors, most likely. The importer keeps knocking; do not spin meanwhile.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (!connection->valid()) return;
    answer(connection->get());
  }
}

// A stranger, or one who asks nonsense, is hung up on without an answer.
void Fabric::answer(int connection_fd) {
  Result<PeerCredentials> peer = peer_credentials(connection_fd);
  if (!peer.ok() || peer->uid != ::getuid()) return;
  Question question;
  // One importer at a time is served, so none may keep the others waiting for long.
  constexpr std::chrono::milliseconds kPatience{50};
  Result<ReceivedMessage> asked = receive_message(connection_fd, bytes_of(question), kPatience);
  if (!asked.ok() || asked->bytes != sizeof(question)) return;
  const std::shared_ptr<Extent> extent =
      find_export(question.secret, static_cast<HandleKind>(question.kind));
  Answer answer;
  if (extent != nullptr) answer = {extent->offset(), extent->bytes()};
  // If the importer is gone by now, that is its business.
  (void)send_message(connection_fd, bytes_of(answer), extent ? extent->fd() : -1, kPatience).ok();
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

// Now and then, so that each export pays for a constant share of it.
void Fabric::forget_expired_locked() {
  if (exports_.size() < sweep_at_) return;
  std::erase_if(secrets_, [&](const auto& known) ASHLAR_REQUIRES(mutex_) {
    const bool expired = exports_.at(known.second).extent.expired();
    if (expired) exports_.erase(known.second);
    return expired;
  });
  sweep_at_ = 2 * exports_.size() + 64;
}

}  // namespace ashlar::sim
