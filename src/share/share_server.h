// SPDX-License-Identifier: Apache-2.0
//
// The exporter's side of sharing: the shared blocks, and a thread that serves importers on an
// abstract Unix socket. An importer receives the block's file descriptors, if any, and, with the
// open connection, a lease: the block is not reused before the share and all leases have ended. A
// lease ends when its connection closes for any reason, so a killed importer leaves no lease
// behind.
//
// The first share creates the socket and the thread. The server accepts only processes of the same
// user. A peer cannot block the thread, which sends only what the socket accepts immediately and
// closes connections that have not sent a valid request in time. Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "share/protocol.h"
#include "share/share_format.h"

namespace ashlar {

class ShareServer {
 public:
  struct Limits {
    std::chrono::milliseconds request_timeout{1000};  // time from connection to first request
    size_t max_connections = 1024;                    // each connection needs a file descriptor
  };

  // REQUIRES: `engine` outlives the server.
  explicit ShareServer(Engine& engine) : ShareServer(engine, Limits()) {}
  ShareServer(Engine& engine, const Limits& limits);
  // Ends all shares and leases, even if importers still have the memory open.
  ~ShareServer();
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  // Returns the block's handle, which does not change while the block is shared or leased. Each
  // call must be matched by end_share. REQUIRES: the block is allocated. kUnsupported: the memory
  // cannot be shared; the message says why. kInvalidArgument: the block's pool is paused.
  Result<std::string> share(Block* block);
  // Undoes one call of share. REQUIRES: the block is shared.
  void end_share(Block* block);

  // Returns false in a forked child, which must not use the server.
  bool in_creating_process() const { return fork_guard_.in_creating_process(); }
  // Returns whether handles with this token come from this server.
  bool is_own(const ExporterToken& token) const;

 private:
  // A block with shares or leases. Erased when both counts are 0.
  struct SharedBlock {
    Block* block = nullptr;  // the shared block, which is pinned
    std::vector<ExtentId> extents;
    std::string handle;
    size_t share_count = 0;
    size_t lease_count = 0;
  };
  // A connected importer. `lease` is the id of its block, set by its first granted request.
  struct ImporterConnection {
    UniqueFd socket;
    std::chrono::steady_clock::time_point deadline;  // for the first request
    std::optional<uint64_t> lease;
  };
  // The response to a request.
  struct Decision {
    ShareCode code = ShareCode::kNotUnderstood;
    std::vector<ExtentId> extents;  // the extents to send
  };

  Status start_locked() ASHLAR_REQUIRES(mutex_);
  Result<ShareHandle> describe(const Block& block, const BlockMemory& memory) const;
  // Decrements the share or lease count of a block. When both are 0, erases and unpins the block.
  void release(uint64_t id, size_t SharedBlock::*count);

  // --- run on the server's thread

  void serve(int listening_fd, int stop_fd);
  bool serve_once(int listening_fd, int stop_fd, std::vector<ImporterConnection>& importers);
  void accept_importer(int listening_fd, std::vector<ImporterConnection>& importers);
  // Handle one request. Return false if the connection must be closed. try_respond does not throw.
  bool try_respond(ImporterConnection& importer);
  bool respond(ImporterConnection& importer);
  Decision decide(const ShareRequest& request, ImporterConnection& importer);
  void close_connection(ImporterConnection& importer);

  Engine& engine_;
  const Limits limits_;
  const ForkGuard fork_guard_;

  mutable Mutex mutex_;
  std::map<uint64_t, SharedBlock> shared_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Block*, uint64_t> ids_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_id_ ASHLAR_GUARDED_BY(mutex_) = 0;
  ExporterToken token_ ASHLAR_GUARDED_BY(mutex_){};
  UniqueFd listening_ ASHLAR_GUARDED_BY(mutex_);
  UniqueFd stop_ ASHLAR_GUARDED_BY(mutex_);  // becomes readable when the thread must end
  std::thread thread_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
