// SPDX-License-Identifier: Apache-2.0
//
// Sends a request head and reads the response.
#include "http/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/text.h"
#include "http/response.h"

namespace ashlar::http {

using std::chrono::steady_clock;

Result<ClientResponse> Client::get(std::string_view target, const ClientLimits& limits) {
  const auto end = steady_clock::now() + limits.total_timeout;
  const std::string head = text("GET ", target, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  // The response is read even if sending failed: a server that rejects the connection does not read
  // the request, but may have sent a response with the reason.
  const Status sent = connection_.write_all(head, limits.timeout);
  const auto deadline = steady_clock::now() + limits.timeout;
  const Result<std::optional<std::string>> bytes = connection_.read_head(deadline, limits.timeout);
  if (!sent.ok() && (!bytes.ok() || !*bytes)) return sent;
  if (!bytes.ok()) return bytes.status();
  if (!*bytes && steady_clock::now() >= deadline) {
    return Status::timeout(text("no response within ", limits.timeout.count(), " ms"));
  }
  if (!*bytes) return Status::device_fault("recv", ECONNRESET, "the server closed the connection");
  const std::optional<ResponseHead> parsed = parse_response_head(**bytes);
  if (!parsed) return Status::format("not an HTTP/1.1 response with a Content-Length");
  if (parsed->body_bytes > limits.max_body_bytes) {
    return Status::format(text("the response has ", parsed->body_bytes, " B (expected at most ",
                               limits.max_body_bytes, ")"));
  }
  ClientResponse response;
  response.code = parsed->code;
  response.keeps_alive = parsed->keeps_alive;
  // The body grows with the bytes received. The announced length is not allocated, because it may
  // be wrong.
  std::array<char, 65536> buffer{};
  while (response.body.size() < parsed->body_bytes) {
    const uint64_t left = parsed->body_bytes - response.body.size();
    const std::span<char> into(buffer.data(), std::min<uint64_t>(buffer.size(), left));
    const auto now = steady_clock::now();
    if (now >= end) {
      return Status::timeout(text("after ", limits.total_timeout.count(), " ms only ",
                                  response.body.size(), " of ", parsed->body_bytes,
                                  " B had arrived"));
    }
    const Result<size_t> got = connection_.read_some(into, std::min(now + limits.timeout, end));
    if (!got.ok()) return got.status();
    if (*got == 0) return Status::device_fault("recv", ECONNRESET, "the response ended early");
    response.body.append(buffer.data(), *got);
  }
  return response;
}

}  // namespace ashlar::http
