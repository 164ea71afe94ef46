// SPDX-License-Identifier: Apache-2.0
//
// The exporter's side of sharing: the shared blocks, and a thread that serves importers on a local
// socket. An importer receives the block's file descriptors and, with the open connection, a lease:
// the block is not reused before the share and all leases have ended. A lease ends when its
// connection closes for any reason, so a killed importer leaves nothing behind.
//
// The socket and the thread exist from the first share on. Serves only processes of the same user.
// A peer cannot block the thread: it sends only what the socket accepts immediately, and closes
// connections that do not send a valid request in time. Thread safe.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "share/protocol.h"
#include "share/share_format.h"

namespace ashlar {

class ShareServer {
 public:
  struct Limits {
    std::chrono::milliseconds request_timeout{1000};  // from connection to first request
    size_t max_connections = 1024;                    // each needs a file descriptor
  };

  // `engine` outlives the server.
  explicit ShareServer(Engine& engine) : ShareServer(engine, Limits()) {}
  ShareServer(Engine& engine, const Limits& limits);
  // Ends all shares and leases, even if importers still have the memory open.
  ~ShareServer();
  ShareServer(const ShareServer&) = delete;
  ShareServer& operator=(const ShareServer&) = delete;

  // Returns the block's handle; the same one while it is shared or leased. Each call must be
  // matched by end_share. REQUIRES: the block is allocated. kUnsupported: the memory cannot be
  // shared; the message says how to enable it.
  Result<std::string> share(Block* block);
  // REQUIRES: shared.
  void end_share(Block* block);

  // Whether a handle with this token comes from this server.
  bool is_own(const ExporterToken& token) const;

 private:
  // Erased when both counts are 0.
  struct Shared {
    Block* block = nullptr;  // pinned
    std::vector<ExtentId> extents;
    std::string handle;
    size_t share_count = 0;
    size_t lease_count = 0;
  };
  // A connection. Has a lease from its first valid request on.
  struct ImporterConnection {
    UniqueFd socket;
    std::chrono::steady_clock::time_point deadline;  // for the first request
    std::optional<uint64_t> lease;
  };
  // The response to a request.
  struct Decision {
    ShareCode code = ShareCode::kNotUnderstood;
    std::vector<ExtentId> extents;  // to send
  };

  Status start_locked() ASHLAR_REQUIRES(mutex_);
  Result<ShareHandle> describe(const Block& block, const BlockMemory& memory) const;
  // Ends one share or lease. Unpins the block after the last.
  void release(uint64_t id, size_t Shared::*count);

  // Functions of the server's thread.
  void serve(int listening_fd, int stop_fd);
  bool serve_once(int listening_fd, int stop_fd, std::vector<ImporterConnection>& importers);
  void accept_importer(int listening_fd, std::vector<ImporterConnection>& importers);
  // False if the connection must be closed.
  bool respond(ImporterConnection& importer);
  Decision decide(const ShareRequest& request, ImporterConnection& importer);
  void close_connection(ImporterConnection& importer);

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
