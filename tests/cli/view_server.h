// SPDX-License-Identifier: Apache-2.0
//
// Runs `ashlar view` as a process, and sends it requests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/unique_fd.h"
#include "cli/cli_json.h"
#include "cli/run_cli.h"
#include "unit/http/socket_client.h"

namespace ashlar {

// A running `ashlar view`.
class ViewServer {
 public:
  enum class Browser { kNone, kStarted };

  explicit ViewServer(std::vector<std::string> arguments, Browser browser = Browser::kNone) {
    if (browser == Browser::kNone) arguments.insert(arguments.begin(), "--no-browser");
    arguments.insert(arguments.begin(), {ASHLAR_CLI_PATH, "view"});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    const UniqueFd out(ends[0]);
    UniqueFd in(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out.get());
    EXPECT_EQ(posix_spawn(&pid_, ASHLAR_CLI_PATH, &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    in.reset();
    for (char c = 0; read(out.get(), &c, 1) == 1 && c != '\n';) address_ += c;
  }
  ~ViewServer() {
    if (pid_ > 0) stop(SIGKILL);
  }
  ViewServer(const ViewServer&) = delete;
  ViewServer& operator=(const ViewServer&) = delete;

  const std::string& address() const { return address_; }

  // Sends a request. The path in `line` is relative to the address, "http://127.0.0.1:PORT/TOKEN/".
  std::string request(const std::string& line, const std::string& body = "") const {
    const size_t space = line.find(' ') + 1;
    return request_path(line.substr(0, space) + path() + line.substr(space), body);
  }
  // Like request(), but `line` contains the full path, including the token.
  std::string request_path(const std::string& line, const std::string& body = "") const {
    const std::string host = address_.substr(7, address_.find('/', 7) - 7);
    SocketClient client(static_cast<uint16_t>(std::stoi(host.substr(host.find(':') + 1))));
    std::string head = line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n";
    if (line.starts_with("POST")) {
      head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    }
    client.send(head + "\r\n" + body);
    return client.read_all();
  }
  // Returns the path of the page, "/TOKEN/".
  std::string path() const { return address_.substr(address_.find('/', 7)); }
  // Requests a response until it is complete. Pauses between requests, because the server computes
  // with low priority.
  std::string completed(const std::string& path) const {
    while (true) {
      std::string answer = request("GET " + path);
      if (code_of(answer) != 202) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  Json scene() const { return Json::parse(body_of(completed("scene.json")), nullptr, false); }
  // Returns a complete response. Expects that the request succeeds.
  Json json(const std::string& path) const {
    const std::string answer = completed(path);
    EXPECT_EQ(code_of(answer), 200) << path << ": " << answer;
    return Json::parse(body_of(answer), nullptr, false);
  }

  pid_t pid() const { return pid_; }
  // Sends the signal and waits for the process. Returns its exit code; -1 if a signal ended it.
  int stop(int signal) {
    const double before_ms = send_signal_stopped(pid_, signal);
    int status = 0;
    rusage usage = {};
    wait4(pid_, &status, 0, &usage);
    cpu_ms_after_signal_ = cpu_ms_of(usage) - before_ms;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The processor time that the process used after the signal.
  double cpu_ms_after_signal() const { return cpu_ms_after_signal_; }

 private:
  pid_t pid_ = 0;
  double cpu_ms_after_signal_ = 0;
  std::string address_;
};

}  // namespace ashlar
