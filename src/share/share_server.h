// SPDX-License-Identifier: Apache-2.0
//
// The exporter's side of sharing: which blocks may be opened by others, and a thread that answers
// at a local socket. Whoever asks for a block gets its file descriptors and, with the open
// connection, a lease: the block is not reused before the share and all leases have ended. A lease
// ends when its connection does, however that comes about, so that nothing is left of a process
// that was killed.
//
// The socket and the thread exist from the first share on. Only processes of the same user are
// answered, and nobody can keep the thread waiting: it sends what a peer's socket takes at once,
// and hangs up on those who do not ask in time or ask nonsense. Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "share/conversation.h"
#include "share/share_format.h"

namespace ashlar {

class ShareServer {
 public:
  struct Limits {
    std::chrono::milliseconds patience{1000};  // from a connection to its first question
    size_t most_connections = 1024;            // each is a file descriptor
  };

  // `engine` outlives it.
  explicit ShareServer(Engine& engine) : ShareServer(engine, Limits()) {}
  ShareServer(Engine& engine, const Limits& limits);
  // Ends all shares and all leases, whoever still has the memory open.
  ~ShareServer();
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  // The block's handle. The same again while it is shared or leased; each call is to be taken back
  // by end_share. REQUIRES: the block is allocated.
  // kUnsupported: such memory cannot be shared; the message says what would make it so.
  Result<std::string> share(Block* block);
  // REQUIRES: shared.
  void end_share(Block* block);

  // A handle with this token is one of ours.
  bool is_own(const ExporterToken& token) const;

 private:
  // Goes when both counts are 0.
  struct Shared {
    Block* block = nullptr;  // held
    std::vector<ExtentId> extents;
    std::string handle;
    size_t share_count = 0;
    size_t lease_count = 0;
  };
  // A connection; with a lease from its first good question on.
  struct Caller {
    UniqueFd socket;
    std::chrono::steady_clock::time_point deadline;  // for the first question
    std::optional<uint64_t> lease;
  };
  // What a question comes to.
  struct Decision {
    AnswerCode code = AnswerCode::kNotUnderstood;
    std::vector<ExtentId> extents;  // to be sent
  };

  Status start_locked() ASHLAR_REQUIRES(mutex_);
  Result<ShareHandle> describe(const Block& block, const BlockMemory& memory) const;
  // Takes back one share or one lease, and lets go of the block after the last.
  void take_back(uint64_t id, size_t Shared::*count);

  // --- on the server's thread
  void serve(int listening_fd, int stop_fd);
  bool wait_for_callers(int listening_fd, int stop_fd, std::vector<Caller>& callers);
  void welcome(int listening_fd, std::vector<Caller>& callers);
  // False: hang up.
  bool answer(Caller& caller);
  Decision decide(const Question& question, Caller& caller);
  void hang_up(Caller& caller);

  Engine& engine_;
  const Limits limits_;

  mutable Mutex mutex_;
  std::map<uint64_t, Shared> shared_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Block*, uint64_t> ids_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
  ExporterToken token_ ASHLAR_GUARDED_BY(mutex_){};
  UniqueFd listening_ ASHLAR_GUARDED_BY(mutex_);
  UniqueFd stop_ ASHLAR_GUARDED_BY(mutex_);  // readable when the thread must end
  std::thread thread_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
