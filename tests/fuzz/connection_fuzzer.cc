// SPDX-License-Identifier: Apache-2.0
//
// Sends arbitrary bytes, in pieces of any size, to a real HTTP server that serves the viewer or
// live monitoring on a port or a Unix socket. All responses must be complete and well-formed. On a
// port, all responses must be errors unless the bytes contain the token. Sending all bytes in one
// piece must give the same number of responses, whose status codes begin with the same digits.
//
// The first line of an input is not sent. Its first character selects the server (see
// select_server()). Each further character is the size of a piece: '0' for one byte, '1' for two,
// '2' for four. The remaining bytes are sent in one piece.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd_passing.h"
#include "base/text.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "live/live_handler.h"
#include "unit/live/status_sample.h"
#include "unit/view/analysis_stub.h"
#include "unit/view/random_run.h"
#include "view/viewer_handler.h"

namespace ashlar {
namespace {

constexpr std::string_view kToken = "sesame17";
constexpr std::string_view kPort = "00000";  // placeholder in inputs for the server's port
constexpr size_t kMaxPieces = 32;  // few, because each piece waits for the server's thread

std::shared_ptr<const Recording> small_recording() {
  static const auto made =
      Recording::create("run", view::random_snapshot({.seed = 1, .entry_count = 40}));
  return made;
}

class ShownSample final : public live::StatusSource {
 public:
  live::ProcessStatus status() override { return live::hostile_process(); }
  std::vector<uint64_t> allocator_numbers() override { return {3, 4}; }
  Result<Snapshot> snapshot(const SnapshotRequest& request) override {
    if (request.allocator != 3) return Status::invalid_argument("there is no such allocator");
    return view::random_snapshot({.seed = 2, .entry_count = 20});
  }
};

class SampleProcess final : public view::LiveProcess {
 public:
  Result<std::string> stats() override { return std::string("{}"); }
  Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() override {
    return std::vector{small_recording()};
  }
};

class Page final : public http::Handler {
 public:
  Page() { reset(); }

  // Restores the initial state for the next input. Replaces the whole viewer if documents were
  // uploaded, because a viewer cannot remove single documents.
  void drop_uploads() {
    if (view_->documents().size() > 1) reset();
  }

  http::Response handle(const http::Request& request) override { return handler_->handle(request); }
  uint64_t max_body_bytes(const http::Request& request) const override {
    return handler_->max_body_bytes(request);
  }
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override {
    return handler_->handle(request, std::move(body));
  }

 private:
  void reset() {
    view_ = std::make_unique<view::Viewer>("ashlar", view::fixed_causes("{}"), "a process");
    ASHLAR_CHECK(view_->add(small_recording()).ok());
    handler_ = std::make_unique<view::ViewerHandler>(*view_, "<!doctype html>", &process_);
    handler_->finish_loading();
  }

  SampleProcess process_{};
  std::unique_ptr<view::Viewer> view_{};
  std::unique_ptr<view::ViewerHandler> handler_{};
};

struct Served {
  std::string local_name{};  // name of the Unix socket; empty if the server has a port
  std::unique_ptr<http::Server> server{};
};

Served serve(http::Handler& handler, std::string local_name) {
  http::ServerOptions options;
  options.token = kToken;
  options.local_name = local_name;
  auto server = http::Server::start(handler, options);
  ASHLAR_CHECK(server.ok());
  return {.local_name = std::move(local_name), .server = *std::move(server)};
}

struct Servers {
  Page page{};
  ShownSample shown{};
  live::LiveHandler process{shown};
  std::array<Served, 4> all{serve(page, ""), serve(process, ""),
                            serve(page, text("ashlar-fuzz-page-", ::getpid())),
                            serve(process, text("ashlar-fuzz-process-", ::getpid()))};
};

// Returns the servers, which are never destroyed: their threads run until the process exits.
Servers& servers() {
  static auto* const made = new Servers;
  return *made;
}

// Returns the viewer on a port for '0' and on a Unix socket for '2', and live monitoring on a port
// for '1' and on a Unix socket for '3'.
const Served& select_server(char choice) {
  return servers().all.at(static_cast<uint8_t>(choice) & 3);
}

UniqueFd connect_to(const Served& served) {
  if (!served.local_name.empty()) {
    auto socket =
        connect_abstract(served.local_name, std::chrono::seconds(5), LocalSocketType::kStream);
    ASHLAR_CHECK(socket.ok());
    return *std::move(socket);
  }
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(served.server->port());
  ASHLAR_CHECK(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
               0);
  return socket;
}

class Client {
 public:
  explicit Client(const Served& served) : socket_(connect_to(served)) {}

  // Returns false if the server closed the connection. Reads while writing, because the server may
  // block until its response is read.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (sent < 0) receive_or_yield();
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Waits until the server has read everything (on a port, until the server's kernel has received
  // everything), so that the next piece arrives separately.
  bool wait_until_read() {
    while (true) {
      int unread_bytes = 0;
      if (::ioctl(socket_.get(), SIOCOUTQ, &unread_bytes) != 0) return false;
      if (unread_bytes == 0) return true;
      receive_or_yield();
    }
  }

  // Returns all received bytes, after the server has closed the connection.
  std::string finish() {
    ::shutdown(socket_.get(), SHUT_WR);
    while (receive(0) > 0) {
    }
    return std::move(received_);
  }

 private:
  void receive_or_yield() {
    if (receive(MSG_DONTWAIT) <= 0) ::sched_yield();
  }

  ssize_t receive(int flags) {
    ssize_t got = -1;
    // Repeats an interrupted call: libFuzzer's timer interrupts system calls every few seconds.
    do got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), flags);
    while (got < 0 && errno == EINTR);
    if (got > 0) received_.append(buffer_.data(), static_cast<size_t>(got));
    return got;
  }

  UniqueFd socket_;
  std::string received_{};
  std::array<char, 16384> buffer_{};
};

// Sends the bytes in pieces and returns the responses. Each character of `pieces` is the binary
// logarithm of the size of a piece.
std::string exchange(const Served& served, std::string_view bytes, std::string_view pieces) {
  Client client(served);
  bool is_connected = true;
  for (size_t i = 0; i < pieces.size() && is_connected && !bytes.empty(); ++i) {
    const size_t piece_bytes = std::min(size_t{1} << (pieces[i] & 15), bytes.size());
    is_connected = client.send(bytes.substr(0, piece_bytes)) && client.wait_until_read();
    bytes.remove_prefix(piece_bytes);
  }
  if (is_connected) client.send(bytes);
  return client.finish();
}

std::string with_port(std::string_view bytes, uint16_t port) {
  std::string all(bytes);
  const std::string digits = text(port);
  for (size_t at = all.find(kPort); at != std::string::npos; at = all.find(kPort, at)) {
    all.replace(at, kPort.size(), digits);
    at += digits.size();
  }
  return all;
}

// Checks that the responses are well-formed, that the first digit of each status code is at least
// `min_digit`, and that none is a redirect. Returns these first digits. The other digits may
// differ between runs: a request for a background result returns 202 until the result is ready.
std::vector<int> check_responses(std::string_view received, int min_digit) {
  std::vector<int> digits;
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  bool keeps_alive = true;
  while (!received.empty()) {
    ASHLAR_CHECK(keeps_alive);
    if (received.starts_with(kContinue)) received.remove_prefix(kContinue.size());
    const auto end = http::end_of_head(received);
    ASHLAR_CHECK(end.has_value());
    const auto head = http::parse_response_head(received.substr(0, *end));
    ASHLAR_CHECK(head.has_value());
    digits.push_back(head->code / 100);
    ASHLAR_CHECK(digits.back() >= min_digit && digits.back() != 3);
    received.remove_prefix(*end);
    ASHLAR_CHECK(head->body_bytes <= received.size());
    received.remove_prefix(head->body_bytes);
    keeps_alive = head->keeps_alive;
  }
  return digits;
}

// Checks that the responses do not contain the first line of /etc/passwd, unless the request does.
void check_no_secret(std::string_view received, std::string_view sent) {
  static const std::string secret = [] {
    std::ifstream file("/etc/passwd");
    std::string line;
    std::getline(file, line);
    ASHLAR_CHECK(!line.empty());
    return line;
  }();
  ASHLAR_CHECK(received.find(secret) == std::string_view::npos ||
               sent.find(secret) != std::string_view::npos);
}

void fuzz(std::string_view bytes) {
  const size_t line_bytes = std::min(bytes.find('\n'), bytes.size());
  if (line_bytes == 0 || line_bytes == bytes.size()) return;
  const Served& served = select_server(bytes.front());
  const std::string_view pieces = bytes.substr(1, std::min(line_bytes - 1, kMaxPieces));
  const std::string sent = with_port(bytes.substr(line_bytes + 1), served.server->port());

  const bool is_authorized = !served.local_name.empty() || sent.find(kToken) != std::string::npos;
  const auto responses = [&](std::string_view sizes) {
    const std::string received = exchange(served, sent, sizes);
    servers().page.drop_uploads();
    check_no_secret(received, sent);
    return check_responses(received, is_authorized ? 2 : 4);
  };
  const std::vector<int> in_pieces = responses(pieces);
  if (!pieces.empty()) ASHLAR_CHECK(in_pieces == responses(""));
}

}  // namespace
}  // namespace ashlar

// Disables leak checks after single inputs; checking once at exit is enough. A server thread frees
// its last memory shortly after the response, which looks like a leak, so the fuzzer would repeat
// every such input and scan all memory.
extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  static std::string flag = "-detect_leaks=0";
  static std::vector<char*> all(*words, *words + *count);
  all.insert(all.begin() + 1, flag.data());
  all.push_back(nullptr);
  *count += 1;
  *words = all.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
