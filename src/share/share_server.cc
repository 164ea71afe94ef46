// SPDX-License-Identifier: Apache-2.0
//
// Shares blocks, and serves importers on a thread.
#include "share/share_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/fd_passing.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "base/thread.h"

namespace ashlar {
namespace {

// A timeout with which a send or receive fails unless it can complete immediately.
constexpr std::chrono::milliseconds kNoWait{0};

Status generate_token(ExporterToken& token) {
  const ssize_t generated = ::getrandom(token.data(), token.size(), 0);
  if (generated == static_cast<ssize_t>(token.size())) return {};
  return Status::device_fault("getrandom", errno, "no random bytes for a socket name");
}

ShareResponse make_response(ShareCode code, std::string_view why = {}) {
  ShareResponse response;
  response.code = code;
  why.copy(response.why.data(), response.why.size() - 1);
  return response;
}

}  // namespace

ShareServer::ShareServer(Engine& engine, const Limits& limits) : engine_(engine), limits_(limits) {}

ShareServer::~ShareServer() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    thread.swap(thread_);
    const uint64_t one = 1;
    if (stop_.valid()) (void)!::write(stop_.get(), &one, sizeof(one));
  }
  if (thread.joinable()) thread.join();
  std::map<uint64_t, SharedBlock> shared;
  {
    MutexLock lock(mutex_);
    shared.swap(shared_);
  }
  for (const auto& [id, each] : shared) engine_.unpin(each.block);
}

Result<std::string> ShareServer::share(Block* block) {
  engine_.pin(block);  // the first step, because a pinned block is not paused and keeps its memory
  ScopeGuard unpin([&] { engine_.unpin(block); });
  const BlockMemory memory = engine_.block_memory(block);
  Result<ShareHandle> handle = describe(*block, memory);
  if (!handle.ok()) return handle.status();
  MutexLock lock(mutex_);
  if (Status started = start_locked(); !started.ok()) return started;
  if (const auto known = ids_.find(block); known != ids_.end()) {
    SharedBlock& shared = shared_.at(known->second);
    std::string bytes = shared.handle;
    ++shared.share_count;
    return bytes;  // unpins, because a SharedBlock has one pin
  }
  handle->exporter = token_;
  handle->share_id = last_id_ + 1;
  SharedBlock shared;
  shared.block = block;
  shared.extents = memory.extents;
  shared.handle = to_bytes(*handle);
  shared.share_count = 1;
  std::string bytes = shared.handle;
  const auto added = shared_.emplace(handle->share_id, std::move(shared)).first;
  ScopeGuard undo([&]() ASHLAR_REQUIRES(mutex_) { shared_.erase(added); });
  ids_.emplace(block, handle->share_id);
  undo.dismiss();
  unpin.dismiss();
  ++last_id_;
  return bytes;
}

Result<ShareHandle> ShareServer::describe(const Block& block, const BlockMemory& memory) const {
  const DeviceProperties& properties = engine_.device().properties();
  ShareHandle handle;
  handle.device = properties.uuid;
  handle.exporter_pid = static_cast<uint32_t>(::getpid());
  handle.offset = block.address - memory.range.begin;
  handle.bytes = block.requested_bytes;
  handle.range_bytes = memory.range.bytes;
  switch (memory.origin) {
    case BlockMemory::Origin::kAllocation: {
      if (!properties.can_share_allocations) {
        return Status::unsupported(
            text("device ", properties.index, " cannot share plain allocations"));
      }
      handle.kind = ShareHandle::Kind::kAllocation;
      const Result<AllocationHandle> allocation =
          engine_.device().share_allocation(memory.range.begin);
      if (!allocation.ok()) return allocation.status();
      handle.allocation = *allocation;
      return handle;
    }
    case BlockMemory::Origin::kExtents:
      if (!properties.can_export_fd) {
        return Status::unsupported(
            text("device ", properties.index, " cannot share extents as file descriptors"));
      }
      if (!memory.can_export_fd) {
        return Status::unsupported(
            "the block's memory (of the paged engine, or of an expandable segment) cannot be "
            "shared: set expandable_segments_ipc:True before it is allocated");
      }
      handle.kind = ShareHandle::Kind::kExtents;
      handle.granule_bytes = memory.granule_bytes;
      handle.granule_count = memory.extents.size();
      return handle;
    case BlockMemory::Origin::kPaused:
      return Status::invalid_argument(
          "the block's pool is paused: resume it before sharing the block");
    case BlockMemory::Origin::kSource: break;
  }
  return Status::unsupported(
      "the block's memory comes from its pool's custom source, which Ashlar cannot share");
}

void ShareServer::end_share(Block* block) {
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    id = ids_.at(block);
  }
  release(id, &SharedBlock::share_count);
}

void ShareServer::release(uint64_t id, size_t SharedBlock::*count) {
  Block* block = nullptr;
  {
    MutexLock lock(mutex_);
    const auto found = shared_.find(id);
    ASHLAR_CHECK(found != shared_.end() && found->second.*count > 0);
    SharedBlock& shared = found->second;
    --(shared.*count);
    if (shared.share_count + shared.lease_count > 0) return;
    block = shared.block;
    ids_.erase(block);
    shared_.erase(found);
  }
  engine_.unpin(block);  // without the lock: the engine may call user code
}

bool ShareServer::is_own(const ExporterToken& token) const {
  MutexLock lock(mutex_);
  return thread_.joinable() && token == token_;
}

Status ShareServer::start_locked() {
  if (thread_.joinable()) return {};
  if (Status generated = generate_token(token_); !generated.ok()) return generated;
  Result<UniqueFd> listening = listen_abstract(socket_name(token_));
  if (!listening.ok()) return listening.status();
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return Status::device_fault("eventfd", errno, std::strerror(errno));
  listening_ = *std::move(listening);
  stop_ = std::move(stop);
  Result<std::thread> thread =
      start_thread([this, at = listening_.get(), until = stop_.get()] { serve(at, until); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return {};
}

void ShareServer::serve(int listening_fd, int stop_fd) {
  std::vector<ImporterConnection> importers;
  run_steps([&] { return serve_once(listening_fd, stop_fd, importers); },
            [&] { return is_readable_now(stop_fd); });
  for (ImporterConnection& importer : importers) close_connection(importer);
}

// Waits for the next events and handles them. Returns false when the server stops.
bool ShareServer::serve_once(int listening_fd, int stop_fd,
                             std::vector<ImporterConnection>& importers) {
  using std::chrono::milliseconds;
  std::vector<pollfd> polled = {{stop_fd, POLLIN, 0}, {listening_fd, POLLIN, 0}};
  auto now = std::chrono::steady_clock::now();
  int timeout_ms = -1;
  for (const ImporterConnection& importer : importers) {
    polled.push_back({importer.socket.get(), POLLIN, 0});
    if (importer.lease) continue;
    const auto left = std::chrono::ceil<milliseconds>(importer.deadline - now).count();
    const int left_ms = std::max(0, static_cast<int>(left));
    timeout_ms = timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
  }
  // The call fails if a signal interrupts it; the caller then polls again.
  if (::poll(polled.data(), polled.size(), timeout_ms) < 0) return true;
  if (polled[0].revents != 0) return false;

  now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < importers.size(); ++i) {
    const bool is_readable = polled[i + 2].revents != 0;
    const bool is_late = !is_readable && !importers[i].lease && now >= importers[i].deadline;
    if (is_late || (is_readable && !try_respond(importers[i]))) close_connection(importers[i]);
  }
  std::erase_if(importers,
                [](const ImporterConnection& importer) { return !importer.socket.valid(); });
  if (polled[1].revents != 0) accept_importer(listening_fd, importers);
  return true;
}

// Accepts a connection. Closes the connection without a response if the peer belongs to another
// user.
void ShareServer::accept_importer(int listening_fd, std::vector<ImporterConnection>& importers) {
  Result<UniqueFd> socket = accept_pending(listening_fd);
  if (!socket.ok()) {
    // If the process is out of descriptors, the connection stays in the backlog, and an immediate
    // retry would fail too.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok() || peer->uid != ::getuid()) return;
  if (importers.size() >= limits_.max_connections) {
    ShareResponse full = make_response(ShareCode::kTooMany);
    (void)send_message(socket->get(), bytes_of(full), -1, kNoWait).ok();
    return;
  }
  ImporterConnection importer;
  importer.socket = *std::move(socket);
  importer.deadline = std::chrono::steady_clock::now() + limits_.request_timeout;
  importers.push_back(std::move(importer));
}

// If host memory runs out, the connection must be closed: the request has been read and cannot be
// handled again.
bool ShareServer::try_respond(ImporterConnection& importer) {
  try {
    return respond(importer);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool ShareServer::respond(ImporterConnection& importer) {
  ShareRequest request;
  const Result<ReceivedMessage> received =
      receive_message(importer.socket.get(), bytes_of(request), kNoWait);
  if (!received.ok()) return false;
  Decision decision;
  if (received->bytes == sizeof(request)) decision = decide(request, importer);
  ShareResponse response = make_response(decision.code);
  std::vector<UniqueFd> fds;
  for (ExtentId extent : decision.extents) {
    Result<UniqueFd> fd = engine_.device().export_fd(extent);
    if (!fd.ok()) {
      fds.clear();
      response = make_response(ShareCode::kFailed, fd.status().to_string());
      break;
    }
    fds.push_back(*std::move(fd));
  }
  response.fd_count = static_cast<uint32_t>(fds.size());
  const Status sent = send_descriptors(importer.socket.get(), bytes_of(response), fds, kNoWait);
  return sent.ok() && response.code == ShareCode::kGranted;
}

// Decides on a request. The first granted request acquires the lease; later requests must be for
// the same block.
ShareServer::Decision ShareServer::decide(const ShareRequest& request,
                                          ImporterConnection& importer) {
  MutexLock lock(mutex_);
  const bool is_valid =
      request.version == kShareProtocolVersion && request.zero == 0 && request.exporter == token_;
  if (!is_valid || (importer.lease && *importer.lease != request.share_id)) return {};
  const auto found = shared_.find(request.share_id);
  if (found == shared_.end() || (!importer.lease && found->second.share_count == 0)) {
    return {ShareCode::kNoSuchShare, {}};
  }
  SharedBlock& shared = found->second;
  const size_t count = shared.extents.size();
  if (request.first_granule > count || (count > 0 && request.first_granule == count)) return {};
  if (!importer.lease) {
    importer.lease = request.share_id;
    ++shared.lease_count;
  }
  const auto first = shared.extents.begin() + static_cast<ptrdiff_t>(request.first_granule);
  const size_t batch = std::min(kMaxFdsPerResponse, count - request.first_granule);
  return {ShareCode::kGranted, {first, first + static_cast<ptrdiff_t>(batch)}};
}

void ShareServer::close_connection(ImporterConnection& importer) {
  importer.socket.reset();
  if (importer.lease) release(*std::exchange(importer.lease, {}), &SharedBlock::lease_count);
}

}  // namespace ashlar
