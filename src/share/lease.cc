// SPDX-License-Identifier: Apache-2.0
//
// Connects to the exporter's socket, and requests the block's descriptors.
#include "share/lease.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/fd_passing.h"
#include "base/text.h"
#include "share/protocol.h"

namespace ashlar {
namespace {

std::string_view reason(const ShareResponse& response) {
  switch (response.code) {
    case ShareCode::kGranted: return "it sent an unexpected response";
    case ShareCode::kNoSuchShare:
      return "it has ended the share: keep its Share until all importers have opened it";
    case ShareCode::kTooMany: return "it has too many connections";
    case ShareCode::kFailed: return response.why.data();
    case ShareCode::kNotUnderstood: break;
  }
  return "it rejected the request: use the same version of Ashlar in both processes";
}

// Returns a device fault with the message of `why` and the exporter's pid.
Status refused_error(const ShareHandle& handle, const Status& why) {
  return Status::device_fault(why.failed_call().empty() ? "open_shared" : why.failed_call(),
                              why.code(),
                              text("the exporter (process ", handle.exporter_pid,
                                   ") refused the shared block: ", why.message()));
}

}  // namespace

Lease::Lease(const ShareHandle& handle, std::chrono::milliseconds timeout, UniqueFd connection)
    : handle_(handle), timeout_(timeout), connection_(std::move(connection)) {}

Result<Lease> Lease::connect(const ShareHandle& handle, std::chrono::milliseconds timeout) {
  Result<UniqueFd> connection = connect_abstract(socket_name(handle.exporter), timeout);
  if (!connection.ok()) return refused_error(handle, connection.status());
  Lease lease(handle, timeout, *std::move(connection));
  const Result<PeerCredentials> peer = peer_credentials(lease.connection_.get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != ::getuid()) {
    return Status::invalid_argument(text("the exporter of the shared block belongs to user ",
                                         peer->uid, ", this process to ", ::getuid()));
  }
  return lease;
}

Result<std::vector<UniqueFd>> Lease::request(uint64_t first_granule) {
  ShareRequest request;
  request.exporter = handle_.exporter;
  request.share_id = handle_.share_id;
  request.first_granule = first_granule;
  if (Status sent = send_message(connection_.get(), bytes_of(request), -1, timeout_); !sent.ok()) {
    return refused_error(handle_, sent);
  }
  ShareResponse response;
  Result<ReceivedDescriptors> received =
      receive_descriptors(connection_.get(), bytes_of(response), kMaxFdsPerResponse, timeout_);
  if (!received.ok()) return refused_error(handle_, received.status());
  if (received->bytes == 0) {
    return refused_error(
        handle_,
        Status::device_fault("recvmsg", ECONNRESET, "it closed the connection without a response"));
  }
  response.why.back() = '\0';
  const bool has_granules = handle_.kind == ShareHandle::Kind::kExtents;
  const bool is_whole =
      received->bytes == sizeof(response) && response.code == ShareCode::kGranted &&
      response.fd_count == received->fds.size() && received->fds.empty() != has_granules;
  if (!is_whole) {
    return refused_error(
        handle_, Status::device_fault("open_shared", ENOENT, std::string(reason(response))));
  }
  return std::move(received->fds);
}

bool Lease::is_exporter_alive() const {
  pollfd polled{connection_.get(), POLLIN, 0};
  if (::poll(&polled, 1, 0) <= 0) return true;
  return (polled.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

}  // namespace ashlar
