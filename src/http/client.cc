// SPDX-License-Identifier: Apache-2.0
//
// A head out, a head in, and as many bytes as it says.
#include "http/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/text.h"
#include "http/reply.h"

namespace ashlar::http {

using std::chrono::steady_clock;

Result<Reply> Client::get(std::string_view target, const ClientLimits& limits) {
  const auto end = steady_clock::now() + limits.whole;
  const std::string head = text("GET ", target, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  // Who is turned away may find the way shut, but the reason behind it.
  const Status sent = connection_.write_all(head, limits.patience);
  const auto deadline = steady_clock::now() + limits.patience;
  const Result<std::optional<std::string>> bytes = connection_.read_head(deadline, limits.patience);
  if (!sent.ok() && (!bytes.ok() || !*bytes)) return sent;
  if (!bytes.ok()) return bytes.status();
  if (!*bytes && steady_clock::now() >= deadline) {
    return Status::timeout(text("no answer came within ", limits.patience.count(), " ms"));
  }
  if (!*bytes) return Status::device_fault("recv", ECONNRESET, "the other side hung up");
  const std::optional<ReplyHead> parsed = parse_reply_head(**bytes);
  if (!parsed) return Status::format("what came is no answer of HTTP/1.1 with a Content-Length");
  if (parsed->body_bytes > limits.most_body_bytes) {
    return Status::format(text("the answer has ", parsed->body_bytes, " B (expected ",
                               limits.most_body_bytes, " at most)"));
  }
  Reply reply;
  reply.code = parsed->code;
  reply.keeps_alive = parsed->keeps_alive;
  // Grows with what comes, not with what is announced.
  std::array<char, 65536> buffer{};
  while (reply.body.size() < parsed->body_bytes) {
    const uint64_t left = parsed->body_bytes - reply.body.size();
    const std::span<char> into(buffer.data(), std::min<uint64_t>(buffer.size(), left));
    const auto now = steady_clock::now();
    if (now >= end) {
      return Status::timeout(text("after ", limits.whole.count(), " ms there were only ",
                                  reply.body.size(), " B of ", parsed->body_bytes));
    }
    const Result<size_t> got = connection_.read_some(into, std::min(now + limits.patience, end));
    if (!got.ok()) return got.status();
    if (*got == 0) return Status::device_fault("recv", ECONNRESET, "the answer ends early");
    reply.body.append(buffer.data(), *got);
  }
  return reply;
}

}  // namespace ashlar::http
