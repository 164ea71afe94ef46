// SPDX-License-Identifier: Apache-2.0
//
// Connecting and asking.
#include "share/lease.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/fd_passing.h"
#include "base/text.h"
#include "share/conversation.h"

namespace ashlar {
namespace {

std::string_view reason(const Answer& answer) {
  switch (answer.code) {
    case AnswerCode::kGranted: return "it sent what was not asked for";
    case AnswerCode::kNoSuchShare:
      return "it has ended that share: it must keep its Share until all have opened it";
    case AnswerCode::kTooMany: return "it takes no more connections";
    case AnswerCode::kFailed: return answer.why.data();
    case AnswerCode::kNotUnderstood: break;
  }
  return "it did not understand: do both processes have the same version of Ashlar?";
}

// Whatever went wrong, with the name of the exporter.
Status refused(const ShareHandle& handle, const Status& why) {
  return Status::device_fault(why.call().empty() ? "open_shared" : why.call(), why.code(),
                              text("the exporter (process ", handle.exporter_pid,
                                   ") did not give the shared block: ", why.message()));
}

}  // namespace

Lease::Lease(const ShareHandle& handle, std::chrono::milliseconds timeout, UniqueFd connection)
    : handle_(handle), timeout_(timeout), connection_(std::move(connection)) {}

Result<Lease> Lease::connect(const ShareHandle& handle, std::chrono::milliseconds timeout) {
  Result<UniqueFd> connection = connect_abstract(socket_name(handle.exporter), timeout);
  if (!connection.ok()) return refused(handle, connection.status());
  Lease lease(handle, timeout, *std::move(connection));
  const Result<PeerCredentials> peer = peer_credentials(lease.connection_.get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != ::getuid()) {
    return Status::invalid_argument(text("the exporter of the shared block belongs to user ",
                                         peer->uid, ", this process to ", ::getuid()));
  }
  return lease;
}

Result<std::vector<UniqueFd>> Lease::ask(uint64_t first_granule) {
  Question question;
  question.exporter = handle_.exporter;
  question.share_id = handle_.share_id;
  question.first_granule = first_granule;
  if (Status sent = send_message(connection_.get(), bytes_of(question), -1, timeout_); !sent.ok()) {
    return refused(handle_, sent);
  }
  Answer answer;
  Result<ReceivedDescriptors> received =
      receive_descriptors(connection_.get(), bytes_of(answer), kMostFdsPerAnswer, timeout_);
  if (!received.ok()) return refused(handle_, received.status());
  if (received->bytes == 0) {
    return refused(handle_,
                   Status::device_fault("recvmsg", ECONNRESET, "it closed without an answer"));
  }
  answer.why.back() = '\0';
  const bool has_granules = handle_.kind == ShareHandle::Kind::kExtents;
  const bool is_whole = received->bytes == sizeof(answer) && answer.code == AnswerCode::kGranted &&
                        answer.fd_count == received->fds.size() &&
                        received->fds.empty() != has_granules;
  if (!is_whole) {
    return refused(handle_,
                   Status::device_fault("open_shared", ENOENT, std::string(reason(answer))));
  }
  return std::move(received->fds);
}

bool Lease::is_exporter_alive() const {
  pollfd looked{connection_.get(), POLLIN, 0};
  if (::poll(&looked, 1, 0) <= 0) return true;
  return (looked.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

}  // namespace ashlar
