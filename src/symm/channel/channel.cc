// SPDX-License-Identifier: Apache-2.0
//
// Opens connections. The channel's thread accepts connections and detects when they end.
#include "symm/channel/channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd_passing.h"
#include "base/text.h"
#include "base/thread.h"
#include "symm/channel/channel_message.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNoWait{0};
// Interval at which `accept` checks whether the group has failed.
constexpr milliseconds kAcceptPollInterval{20};

std::span<const uint8_t> as_span(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

milliseconds timeout_of(Deadline deadline) {
  const int left = deadline.poll_timeout_ms();
  return left < 0 ? std::chrono::hours(24) : milliseconds(left);
}

// Returns kPeerLost if the peer died, kTimeout if it did not accept in time, and `error` otherwise.
Status connect_error(int rank, const Status& error) {
  switch (error.code()) {
    case ECONNREFUSED:
    case ENOENT:
    case EPIPE:
    case ECONNRESET: return Status::peer_lost(text("rank ", rank, " died: ", error.message()));
    case EAGAIN:
    case ETIMEDOUT:
      return Status::timeout(text("rank ", rank, " accepted no connection before the deadline"));
    default: return error;
  }
}

}  // namespace

Result<Token> generate_token() {
  Token token{};
  const ssize_t count = ::getrandom(token.data(), token.size(), 0);
  if (count == static_cast<ssize_t>(token.size())) return token;
  return Status::device_fault("getrandom", errno, "no random bytes for a token");
}

std::string to_hex(const Token& token) {
  std::string hex;
  for (uint8_t byte : token) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

Status peer_lost_error(const PeerConnection& connection) {
  return Status::peer_lost(text("rank ", connection.peer, " of group ", connection.group, " died"));
}

Status disconnect_reason(PeerConnection& connection) {
  std::array<uint8_t, kMaxMessageBytes> buffer{};
  for (int failure_count = 0; failure_count < 2;) {
    Result<ReceivedDescriptors> got =
        receive_descriptors(connection.socket.get(), buffer, kMaxAttachedFds, kNoWait);
    // If the peer closed its end without reading everything, the first call fails, and later calls
    // return the messages that the peer sent. One failure is therefore ignored.
    if (!got.ok()) {
      ++failure_count;
      continue;
    }
    if (got->bytes == 0) break;
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got->bytes);
    const std::optional<ChannelMessage> message = parse_message(bytes);
    if (message && message->kind == ChannelMessageKind::kClosing) return {};
    if (message && message->kind == ChannelMessageKind::kMemory && got->fds.size() <= 1) {
      connection.unread.push_back(
          {message->sequence, got->fds.empty() ? UniqueFd() : std::move(got->fds.front())});
    }
    if (const Status reason = message ? failure_reason(*message) : Status(); !reason.ok()) {
      return reason;
    }
  }
  return peer_lost_error(connection);
}

Result<std::unique_ptr<Channel>> Channel::open(const Limits& limits) {
  const Result<Token> name = generate_token();
  const Result<Token> token = generate_token();
  if (!name.ok() || !token.ok()) return name.ok() ? token.status() : name.status();
  ChannelAddress address{"ashlar-symm-" + to_hex(*name), *token};
  Result<UniqueFd> listening = listen_abstract(address.name);
  if (!listening.ok()) return listening.status();
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::device_fault("eventfd", errno, std::strerror(errno));
  std::unique_ptr<Channel> channel(
      new Channel(limits, std::move(address), *std::move(listening), std::move(wake)));
  Result<std::thread> thread = start_thread([raw = channel.get()] { raw->run(); });
  if (!thread.ok()) return thread.status();
  channel->thread_ = *std::move(thread);
  return channel;
}

Channel::Channel(const Limits& limits, ChannelAddress address, UniqueFd listening, UniqueFd wake)
    : limits_(limits),
      address_(std::move(address)),
      listening_(std::move(listening)),
      wake_(std::move(wake)) {}

Channel::~Channel() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

Result<UniqueFd> Channel::connect(const ChannelAddress& address, const ConnectionId& id,
                                  Deadline deadline) {
  Result<UniqueFd> socket = connect_abstract(address.name, timeout_of(deadline));
  if (!socket.ok()) return connect_error(id.to, socket.status());
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != ::getuid()) {
    return Status::invalid_argument(text("rank ", id.to, " runs as user ", peer->uid,
                                         ", this one as ", ::getuid(),
                                         ": ranks on one machine must run as the same user"));
  }
  ChannelMessage hello;
  hello.group = id.group;
  hello.from = id.from;
  hello.to = id.to;
  hello.text = bytes_of(address.token);
  const std::string bytes = to_bytes(hello);
  if (Status sent = send_message(socket->get(), as_span(bytes), -1, timeout_of(deadline));
      !sent.ok()) {
    return connect_error(id.to, sent);
  }
  return socket;
}

Result<UniqueFd> Channel::accept(const ConnectionId& id, const Failure& failure,
                                 Deadline deadline) {
  MutexLock lock(mutex_);
  for (;;) {
    if (const auto found = pending_.find(id); found != pending_.end()) {
      UniqueFd socket = std::move(found->second);
      pending_.erase(found);
      return socket;
    }
    if (failure.has_happened()) return failure.reason();
    if (deadline.has_passed()) {
      return Status::timeout(text("rank ", id.from, " did not connect before the deadline"));
    }
    const auto slice = std::min<std::chrono::nanoseconds>(kAcceptPollInterval, deadline.left());
    lock.wait_until(arrived_, std::chrono::steady_clock::now() + slice);
  }
}

void Channel::watch(std::shared_ptr<PeerConnection> connection) {
  {
    MutexLock lock(mutex_);
    connections_.push_back(std::move(connection));
  }
  wake();
}

void Channel::unwatch(const PeerConnection& connection) {
  {
    MutexLock lock(mutex_);
    std::erase_if(connections_, [&](const auto& each) { return each.get() == &connection; });
  }
  wake();  // so that the thread drops its reference
}

void Channel::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void Channel::run() {
  PollSet poll_set;
  run_steps([&] { return poll_once(poll_set); },
            [this] {
              MutexLock lock(mutex_);
              return is_stopping_;
            });
}

// Returns false when the thread should stop.
bool Channel::poll_once(PollSet& poll_set) {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
  {
    MutexLock lock(mutex_);
    if (is_stopping_) return false;
    poll_set.connections = connections_;
  }
  Deadline next = Deadline::never();
  for (const Handshake& handshake : poll_set.handshakes) {
    polled.push_back({handshake.socket.get(), POLLIN, 0});
    if (handshake.deadline.at() < next.at()) next = handshake.deadline;
  }
  const size_t first_connection = polled.size();
  for (const auto& connection : poll_set.connections)
    polled.push_back({connection->socket.get(), POLLRDHUP, 0});
  if (::poll(polled.data(), polled.size(), next.poll_timeout_ms()) < 0)
    return true;  // a signal interrupted the call

  if (polled[0].revents != 0) {
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
  }
  for (size_t i = 0; i < poll_set.connections.size(); ++i) {
    if (polled[first_connection + i].revents != 0) handle_disconnect(poll_set.connections[i]);
  }
  poll_set.connections.clear();
  for (size_t i = 0; i < poll_set.handshakes.size(); ++i) {
    Handshake& handshake = poll_set.handshakes[i];
    if (polled[i + 2].revents != 0) finish_handshake(std::move(handshake.socket));
    if (handshake.deadline.has_passed()) handshake.socket.reset();
  }
  std::erase_if(poll_set.handshakes,
                [](const Handshake& handshake) { return !handshake.socket.valid(); });
  if (polled[1].revents != 0) begin_handshake(poll_set.handshakes);
  return true;
}

// Accepts one connection. Drops it if the process belongs to another user, or if too many
// handshakes are in progress.
void Channel::begin_handshake(std::vector<Handshake>& handshakes) {
  Result<UniqueFd> socket = accept_pending(listening_.get());
  if (!socket.ok()) {
    // Probably out of descriptors. The connection stays queued, so `poll` would return immediately.
    // Sleep to avoid a busy loop.
    std::this_thread::sleep_for(milliseconds(10));
    return;
  }
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok() || peer->uid != ::getuid() || handshakes.size() >= limits_.max_pending) return;
  handshakes.push_back({*std::move(socket), Deadline::after(limits_.handshake_timeout)});
}

// Drops the connection unless its first message is a hello with this channel's token. Also drops it
// if too many connections wait for `accept`.
void Channel::finish_handshake(UniqueFd socket) {
  std::array<uint8_t, kMaxMessageBytes> buffer{};
  const Result<ReceivedMessage> got = receive_message(socket.get(), buffer, kNoWait);
  if (!got.ok()) return;
  const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got->bytes);
  const std::optional<ChannelMessage> hello = parse_message(bytes);
  const bool is_valid_hello = hello && hello->kind == ChannelMessageKind::kHello &&
                              !got->fd.valid() && hello->text == bytes_of(address_.token);
  if (!is_valid_hello) return;
  MutexLock lock(mutex_);
  if (pending_.size() >= limits_.max_pending) drop_closed_pending_locked();
  if (pending_.size() >= limits_.max_pending) return;
  pending_.insert_or_assign(ConnectionId{hello->group, hello->from, hello->to}, std::move(socket));
  arrived_.notify_all();
}

void Channel::drop_closed_pending_locked() {
  std::erase_if(pending_, [](const auto& each) {
    pollfd polled{each.second.get(), POLLRDHUP, 0};
    return ::poll(&polled, 1, 0) > 0;
  });
}

void Channel::handle_disconnect(const std::shared_ptr<PeerConnection>& connection) {
  {
    MutexLock lock(mutex_);
    const bool is_watched =
        std::find(connections_.begin(), connections_.end(), connection) != connections_.end();
    if (!is_watched) return;  // unwatched in the meantime
  }
  {
    MutexLock lock(connection->receive_mutex);
    const Status reason = disconnect_reason(*connection);
    if (!reason.ok()) connection->failure->report(reason);
  }
  // Last: if host memory runs out before this, the next step handles the disconnect again.
  MutexLock lock(mutex_);
  std::erase(connections_, connection);
}

}  // namespace ashlar::symm
