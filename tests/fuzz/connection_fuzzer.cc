// SPDX-License-Identifier: Apache-2.0
//
// Sends arbitrary bytes to a real HTTP server, in pieces of any size: on a port or a Unix socket,
// serving the viewer or live monitoring. All responses must be complete and well-formed, errors
// only without the token, and the same if all bytes are sent in one piece.
//
// The first line of an input is not sent. Its first character selects the server, see `asked`. Each
// further character is a piece: '0' of one byte, '1' of two, '2' of four. The remaining bytes are
// sent in one piece.
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
#include <functional>
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
#include "unit/view/random_run.h"
#include "view/page_handler.h"

namespace ashlar {
namespace {

constexpr std::string_view kToken = "sesame17";
constexpr std::string_view kPort = "00000";  // placeholder in inputs for the server's port
constexpr size_t kMaxPieces = 32;            // each piece waits for the server's thread

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

class WatchedSample final : public view::LiveProcess {
 public:
  Result<std::string> stats() override { return std::string("{}"); }
  Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() override {
    return std::vector{small_recording()};
  }
};

class Page final : public http::Handler {
 public:
  Page() { renew(); }

  // Documents are never removed, but every input must find the same state.
  void forget_what_was_sent() {
    if (view_->documents().size() > 1) renew();
  }

  http::Response handle(const http::Request& request) override { return page_->handle(request); }
  uint64_t max_body_bytes(const http::Request& request) const override {
    return page_->max_body_bytes(request);
  }
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override {
    return page_->handle(request, std::move(body));
  }

 private:
  void renew() {
    const auto explain = [](const DeviceRecording&, const std::function<bool()>&) {
      return Result<std::string>("{}");
    };
    view_ = std::make_unique<view::Viewer>("ashlar", explain, "a process");
    ASHLAR_CHECK(view_->add(small_recording()).ok());
    page_ = std::make_unique<view::PageHandler>(*view_, "<!doctype html>", &watched_);
    page_->finish_loading();
  }

  WatchedSample watched_{};
  std::unique_ptr<view::Viewer> view_{};
  std::unique_ptr<view::PageHandler> page_{};
};

struct Served {
  std::string local_name{};  // empty: on a port
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

struct House {
  Page page{};
  ShownSample shown{};
  live::LiveHandler process{shown};
  std::array<Served, 4> all{serve(page, ""), serve(process, ""),
                            serve(page, text("ashlar-fuzz-page-", ::getpid())),
                            serve(process, text("ashlar-fuzz-process-", ::getpid()))};
};

// Never destroyed: its threads wait for the next input until the process exits.
House& house() {
  static auto* const made = new House;
  return *made;
}

// "0": viewer, "1": live monitoring, both on a port; "2" and "3": the same on Unix sockets.
const Served& asked(char choice) { return house().all.at(static_cast<uint8_t>(choice) & 3); }

UniqueFd connect_to(const Served& served) {
  if (!served.local_name.empty()) {
    auto socket =
        connect_abstract(served.local_name, std::chrono::seconds(5), LocalSocket::kStream);
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

  // False: the server closed the connection. Reads while writing, because the server may block
  // until its response is read.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (sent < 0) rest();
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Waits until the server (on a port: its kernel) has read everything, so that the next piece
  // arrives separately.
  bool wait_until_read() {
    while (true) {
      int unread_bytes = 0;
      if (::ioctl(socket_.get(), SIOCOUTQ, &unread_bytes) != 0) return false;
      if (unread_bytes == 0) return true;
      rest();
    }
  }

  // The complete response, until the server closes the connection.
  std::string finish() {
    ::shutdown(socket_.get(), SHUT_WR);
    while (listen(0) > 0) {
    }
    return std::move(heard_);
  }

 private:
  void rest() {
    if (listen(MSG_DONTWAIT) <= 0) ::sched_yield();
  }

  ssize_t listen(int flags) {
    ssize_t got = -1;
    // libFuzzer's timer interrupts system calls every few seconds.
    do got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), flags);
    while (got < 0 && errno == EINTR);
    if (got > 0) heard_.append(buffer_.data(), static_cast<size_t>(got));
    return got;
  }

  UniqueFd socket_;
  std::string heard_{};
  std::array<char, 16384> buffer_{};
};

// The responses to the bytes, sent in the pieces of the first line.
std::string converse(const Served& served, std::string_view bytes, std::string_view pieces) {
  Client client(served);
  bool is_there = true;
  for (size_t i = 0; i < pieces.size() && is_there && !bytes.empty(); ++i) {
    const size_t piece_bytes = std::min(size_t{1} << (pieces[i] & 15), bytes.size());
    is_there = client.send(bytes.substr(0, piece_bytes)) && client.wait_until_read();
    bytes.remove_prefix(piece_bytes);
  }
  if (is_there) client.send(bytes);
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

// The first digits of the status codes. The other digits may differ: a background result is 202
// before it is 200.
std::vector<int> checked_answers(std::string_view heard, int least_digit) {
  std::vector<int> digits;
  constexpr std::string_view kGreeting = "HTTP/1.1 100 Continue\r\n\r\n";
  bool goes_on = true;
  while (!heard.empty()) {
    ASHLAR_CHECK(goes_on);
    if (heard.starts_with(kGreeting)) heard.remove_prefix(kGreeting.size());
    const auto end = http::end_of_head(heard);
    ASHLAR_CHECK(end.has_value());
    const auto head = http::parse_response_head(heard.substr(0, *end));
    ASHLAR_CHECK(head.has_value());
    digits.push_back(head->code / 100);
    ASHLAR_CHECK(digits.back() >= least_digit && digits.back() != 3);
    heard.remove_prefix(*end);
    ASHLAR_CHECK(head->body_bytes <= heard.size());
    heard.remove_prefix(head->body_bytes);
    goes_on = head->keeps_alive;
  }
  return digits;
}

// Secrets that no response may contain, unless the request contained them.
void check_no_file(std::string_view heard, std::string_view sent) {
  static const std::string secret = [] {
    std::ifstream file("/etc/passwd");
    std::string line;
    std::getline(file, line);
    ASHLAR_CHECK(!line.empty());
    return line;
  }();
  ASHLAR_CHECK(heard.find(secret) == std::string_view::npos ||
               sent.find(secret) != std::string_view::npos);
}

void fuzz(std::string_view bytes) {
  const size_t line_bytes = std::min(bytes.find('\n'), bytes.size());
  if (line_bytes == 0 || line_bytes == bytes.size()) return;
  const Served& served = asked(bytes.front());
  const std::string_view pieces = bytes.substr(1, std::min(line_bytes - 1, kMaxPieces));
  const std::string sent = with_port(bytes.substr(line_bytes + 1), served.server->port());

  const bool may_enter = !served.local_name.empty() || sent.find(kToken) != std::string::npos;
  const auto answers = [&](std::string_view cut_into) {
    const std::string heard = converse(served, sent, cut_into);
    house().page.forget_what_was_sent();
    check_no_file(heard, sent);
    return checked_answers(heard, may_enter ? 2 : 4);
  };
  const std::vector<int> in_pieces = answers(pieces);
  if (!pieces.empty()) ASHLAR_CHECK(in_pieces == answers(""));
}

}  // namespace
}  // namespace ashlar

// A server thread frees its last memory shortly after the response, which looks like a leak: the
// fuzzer would repeat every such input and scan all memory. Checking once at the end is enough.
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
