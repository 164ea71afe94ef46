// SPDX-License-Identifier: Apache-2.0
//
// Opens one connection per peer, in rank order, transfers descriptors, and closes the connections.
#include "symm/channel/peer_connections.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/fd_passing.h"
#include "base/text.h"
#include "symm/channel/channel_message.h"
#include "symm/core/status_codec.h"

namespace ashlar::symm {
namespace {

// Interval at which `receive` checks whether the group has failed.
constexpr std::chrono::milliseconds kReceivePollInterval{20};
constexpr std::chrono::milliseconds kCloseTimeout{100};

std::span<const uint8_t> span_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

PeerConnections::PeerConnections(Channel& channel, const Options& options,
                                 std::shared_ptr<Failure> failure)
    : channel_(channel),
      options_(options),
      failure_(std::move(failure)),
      connections_(options.rank_info.world_size) {}

PeerConnections::~PeerConnections() {
  for (const auto& connection : connections_) {
    if (connection != nullptr) channel_.unwatch(*connection);
  }
}

Status PeerConnections::connect(Deadline deadline) {
  for (int rank = 0; rank < options_.rank_info.world_size; ++rank) {
    const std::optional<ChannelAddress>& address = options_.peers[rank];
    if (!address) continue;
    Result<UniqueFd> socket = open_connection(rank, *address, deadline);
    if (!socket.ok()) {
      if (socket.status().is(StatusKind::kPeerLost)) failure_->report(socket.status());
      // Unless this is a timeout, notifies the peers, so that they stop waiting for this rank.
      // After a timeout, their own deadlines end the wait.
      if (!socket.status().is(StatusKind::kTimeout)) close_all(socket.status());
      return socket.status();
    }
    add(rank, *std::move(socket));
  }
  return {};
}

void PeerConnections::add(int rank, UniqueFd socket) {
  auto connection = std::make_shared<PeerConnection>();
  connection->socket = std::move(socket);
  connection->peer = rank;
  connection->group = options_.group_name;
  connection->failure = failure_;
  connections_[rank] = connection;
  channel_.watch(std::move(connection));
}

// Accepts connections that peers have opened, so that `close_all` can send the reason. Connections
// that are not accepted stay open, so their peers would not detect that this rank has left.
void PeerConnections::accept_pending() {
  const Failure none;
  for (int rank = options_.rank_info.rank + 1; rank < options_.rank_info.world_size; ++rank) {
    if (!options_.peers[rank] || connections_[rank] != nullptr) continue;
    Result<UniqueFd> socket = channel_.accept({options_.group, rank, options_.rank_info.rank}, none,
                                              Deadline::after(std::chrono::nanoseconds(0)));
    if (socket.ok()) add(rank, *std::move(socket));
  }
}

Result<UniqueFd> PeerConnections::open_connection(int rank, const ChannelAddress& address,
                                                  Deadline deadline) {
  const int own_rank = options_.rank_info.rank;
  if (rank < own_rank) return Channel::connect(address, {options_.group, own_rank, rank}, deadline);
  return channel_.accept({options_.group, rank, own_rank}, *failure_, deadline);
}

Status PeerConnections::send(int rank, uint64_t sequence, int fd, Deadline deadline) {
  ASHLAR_CHECK(reaches(rank));
  const ChannelMessage message{ChannelMessageKind::kMemory, options_.group, sequence,
                               options_.rank_info.rank,     rank,           {}};
  const int left = deadline.poll_timeout_ms();
  const std::chrono::milliseconds timeout =
      left < 0 ? std::chrono::hours(24) : std::chrono::milliseconds(left);
  Status sent =
      send_message(connections_[rank]->socket.get(), span_of(to_bytes(message)), fd, timeout);
  if (sent.ok()) return sent;
  if (sent.code() == ETIMEDOUT) {
    return Status::timeout(text("rank ", rank, " of group ", options_.group_name,
                                " did not receive before the deadline"));
  }
  if (sent.code() != EPIPE && sent.code() != ECONNRESET) return sent;
  MutexLock lock(connections_[rank]->receive_mutex);
  return report_lost(*connections_[rank]);
}

// Returns the descriptor with this sequence number if the channel's thread received it when the
// peer left. Drops descriptors with lower numbers.
std::optional<UniqueFd> PeerConnections::take_unread(PeerConnection& connection,
                                                     uint64_t sequence) {
  std::deque<ReceivedMemory>& unread = connection.unread;
  while (!unread.empty() && unread.front().sequence < sequence) unread.pop_front();
  if (unread.empty() || unread.front().sequence != sequence) return std::nullopt;
  UniqueFd fd = std::move(unread.front().fd);
  unread.pop_front();
  return fd;
}

Result<UniqueFd> PeerConnections::receive(int rank, uint64_t sequence, Deadline deadline) {
  ASHLAR_CHECK(reaches(rank));
  const int socket = connections_[rank]->socket.get();
  std::array<uint8_t, kMaxMessageBytes> buffer{};
  for (;;) {
    if (failure_->has_happened()) return failure_->reason();
    pollfd waiting{socket, POLLIN, 0};
    const auto slice = std::min<std::chrono::nanoseconds>(kReceivePollInterval, deadline.left());
    if (::poll(&waiting, 1, Deadline::after(slice).poll_timeout_ms()) <= 0) {
      if (!deadline.has_passed()) continue;
      return Status::timeout(text("rank ", rank, " of group ", options_.group_name,
                                  " sent nothing before the deadline"));
    }
    MutexLock lock(connections_[rank]->receive_mutex);
    if (std::optional<UniqueFd> unread = take_unread(*connections_[rank], sequence)) {
      return *std::move(unread);
    }
    Result<ReceivedMessage> got = receive_message(socket, buffer, std::chrono::milliseconds(0));
    if (!got.ok() && got.status().code() == EMFILE) return got.status();
    if (!got.ok()) return report_lost(*connections_[rank]);
    const std::optional<ChannelMessage> message =
        parse_message({reinterpret_cast<const char*>(buffer.data()), got->bytes});
    if (!message || message->group != options_.group || message->from != rank ||
        message->to != options_.rank_info.rank) {
      return Status::format(
          text("rank ", rank, " of group ", options_.group_name, " sent a malformed message"));
    }
    if (const Status reason = failure_reason(*message); !reason.ok()) {
      failure_->report(reason);
      return failure_->reason();
    }
    if (message->kind != ChannelMessageKind::kMemory) return report_lost(*connections_[rank]);
    if (message->sequence < sequence) continue;
    if (message->sequence > sequence) {
      return Status::format(text("rank ", rank, " of group ", options_.group_name,
                                 " is ahead: it sent message ", message->sequence, ", expected ",
                                 sequence));
    }
    return std::move(got->fd);
  }
}

void PeerConnections::close_all(const Status& reason) {
  accept_pending();
  ChannelMessage message;
  message.kind = reason.ok() ? ChannelMessageKind::kClosing : ChannelMessageKind::kFailed;
  message.group = options_.group;
  message.from = options_.rank_info.rank;
  if (!reason.ok()) message.text = to_bytes(reason);
  for (auto& connection : connections_) {
    if (connection == nullptr) continue;
    message.to = connection->peer;
    const std::string bytes = to_bytes(message);
    (void)send_message(connection->socket.get(), span_of(bytes), -1, kCloseTimeout).ok();
    channel_.unwatch(*connection);
    connection.reset();
  }
}

// Reports a peer that left the group normally as lost, too, because this rank still needs it.
Status PeerConnections::report_lost(PeerConnection& connection) const {
  const Status reason = disconnect_reason(connection);
  failure_->report(reason.ok() ? peer_lost_error(connection) : reason);
  return failure_->reason();
}

}  // namespace ashlar::symm
