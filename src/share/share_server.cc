// SPDX-License-Identifier: Apache-2.0
//
// Sharing and answering.
#include "share/share_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/fd_passing.h"
#include "base/text.h"
#include "base/thread.h"

namespace ashlar {
namespace {

// What a socket takes is sent at once or not at all.
constexpr std::chrono::milliseconds kAtOnce{0};

Status draw(ExporterToken& token) {
  const ssize_t drawn = ::getrandom(token.data(), token.size(), 0);
  if (drawn == static_cast<ssize_t>(token.size())) return {};
  return Status::device_fault("getrandom", errno, "no random bytes for the name of a socket");
}

Answer make_answer(AnswerCode code, std::string_view why = {}) {
  Answer answer;
  answer.code = code;
  why.copy(answer.why.data(), answer.why.size() - 1);
  return answer;
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
  std::map<uint64_t, Shared> shared;
  {
    MutexLock lock(mutex_);
    shared.swap(shared_);
  }
  for (const auto& [id, each] : shared) engine_.unpin(each.block);
}

// --- sharing ------------------------------------------------------------------------------------

Result<std::string> ShareServer::share(Block* block) {
  engine_.pin(block);  // first: what is held is not paused, and its memory stays what it is
  const BlockMemory memory = engine_.block_memory(block);
  Result<ShareHandle> handle = describe(*block, memory);
  Status ready = handle.status();
  if (ready.ok()) {
    MutexLock lock(mutex_);
    ready = start_locked();
  }
  if (!ready.ok()) {
    engine_.unpin(block);
    return ready;
  }
  bool is_first = true;
  std::string bytes;
  {
    MutexLock lock(mutex_);
    handle->exporter = token_;
    const auto [known, inserted] = ids_.try_emplace(block, last_id_ + 1);
    is_first = inserted;
    Shared& shared = shared_[known->second];
    if (is_first) {
      handle->share_id = ++last_id_;
      shared.block = block;
      shared.extents = memory.extents;
      shared.handle = to_bytes(*handle);
    }
    ++shared.share_count;
    bytes = shared.handle;
  }
  if (!is_first) engine_.unpin(block);  // one hold is enough for all
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
      "the block's memory comes from its pool's own source: only that could share it");
}

void ShareServer::end_share(Block* block) {
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    id = ids_.at(block);
  }
  take_back(id, &Shared::share_count);
}

void ShareServer::take_back(uint64_t id, size_t Shared::*count) {
  Block* block = nullptr;
  {
    MutexLock lock(mutex_);
    const auto found = shared_.find(id);
    ASHLAR_CHECK(found != shared_.end() && found->second.*count > 0);
    Shared& shared = found->second;
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

// --- answering ----------------------------------------------------------------------------------

Status ShareServer::start_locked() {
  if (thread_.joinable()) return {};
  if (Status drawn = draw(token_); !drawn.ok()) return drawn;
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
  std::vector<Caller> callers;
  while (wait_for_callers(listening_fd, stop_fd, callers)) {
  }
  for (Caller& caller : callers) hang_up(caller);
}

// Waits until something happens, and deals with it. False: it is time to stop.
bool ShareServer::wait_for_callers(int listening_fd, int stop_fd, std::vector<Caller>& callers) {
  using std::chrono::milliseconds;
  std::vector<pollfd> waiting = {{stop_fd, POLLIN, 0}, {listening_fd, POLLIN, 0}};
  auto now = std::chrono::steady_clock::now();
  int timeout_ms = -1;
  for (const Caller& caller : callers) {
    waiting.push_back({caller.socket.get(), POLLIN, 0});
    if (caller.lease) continue;
    const auto left = std::chrono::ceil<milliseconds>(caller.deadline - now).count();
    const int left_ms = std::max(0, static_cast<int>(left));
    timeout_ms = timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
  }
  // Interrupted: nothing is ready then, and we look again.
  if (::poll(waiting.data(), waiting.size(), timeout_ms) < 0) return true;
  if (waiting[0].revents != 0) return false;

  now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < callers.size(); ++i) {
    const bool is_speaking = waiting[i + 2].revents != 0;
    const bool is_late = !is_speaking && !callers[i].lease && now >= callers[i].deadline;
    if (is_late || (is_speaking && !answer(callers[i]))) hang_up(callers[i]);
  }
  std::erase_if(callers, [](const Caller& caller) { return !caller.socket.valid(); });
  if (waiting[1].revents != 0) welcome(listening_fd, callers);
  return true;
}

// A stranger is hung up on without a word.
void ShareServer::welcome(int listening_fd, std::vector<Caller>& callers) {
  Result<UniqueFd> socket = accept_pending(listening_fd);
  if (!socket.ok()) {
    // Out of descriptors, most likely. The importer keeps knocking; do not spin meanwhile.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok() || peer->uid != ::getuid()) return;
  if (callers.size() >= limits_.most_connections) {
    Answer full = make_answer(AnswerCode::kTooMany);
    (void)send_message(socket->get(), bytes_of(full), -1, kAtOnce).ok();
    return;
  }
  Caller caller;
  caller.socket = *std::move(socket);
  caller.deadline = std::chrono::steady_clock::now() + limits_.patience;
  callers.push_back(std::move(caller));
}

bool ShareServer::answer(Caller& caller) {
  Question question;
  const Result<ReceivedMessage> asked =
      receive_message(caller.socket.get(), bytes_of(question), kAtOnce);
  if (!asked.ok()) return false;
  Decision decision;
  if (asked->bytes == sizeof(question)) decision = decide(question, caller);
  Answer answer = make_answer(decision.code);
  std::vector<UniqueFd> fds;
  for (ExtentId extent : decision.extents) {
    Result<UniqueFd> fd = engine_.device().export_fd(extent);
    if (!fd.ok()) {
      fds.clear();
      answer = make_answer(AnswerCode::kFailed, fd.status().to_string());
      break;
    }
    fds.push_back(*std::move(fd));
  }
  answer.fd_count = static_cast<uint32_t>(fds.size());
  const Status sent = send_descriptors(caller.socket.get(), bytes_of(answer), fds, kAtOnce);
  return sent.ok() && answer.code == AnswerCode::kGranted;
}

// The first good question is the beginning of a lease; later ones must be about the same share.
ShareServer::Decision ShareServer::decide(const Question& question, Caller& caller) {
  MutexLock lock(mutex_);
  const bool is_sound =
      question.version == kConversationVersion && question.zero == 0 && question.exporter == token_;
  if (!is_sound || (caller.lease && *caller.lease != question.share_id)) return {};
  const auto found = shared_.find(question.share_id);
  if (found == shared_.end() || (!caller.lease && found->second.share_count == 0)) {
    return {AnswerCode::kNoSuchShare, {}};
  }
  Shared& shared = found->second;
  const size_t count = shared.extents.size();
  if (question.first_granule > count || (count > 0 && question.first_granule == count)) return {};
  if (!caller.lease) {
    caller.lease = question.share_id;
    ++shared.lease_count;
  }
  const auto first = shared.extents.begin() + static_cast<ptrdiff_t>(question.first_granule);
  const size_t batch = std::min(kMostFdsPerAnswer, count - question.first_granule);
  return {AnswerCode::kGranted, {first, first + static_cast<ptrdiff_t>(batch)}};
}

void ShareServer::hang_up(Caller& caller) {
  caller.socket.reset();
  if (caller.lease) take_back(*std::exchange(caller.lease, {}), &Shared::lease_count);
}

}  // namespace ashlar
