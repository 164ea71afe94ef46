// SPDX-License-Identifier: Apache-2.0
//
// A temporary folder that is removed when its owner ends, even if a signal kills the process.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"

namespace ashlar {

// Removed by the destructor, or by a shell that waits until the process and all processes that it
// forked have ended. Without a shell, a killed process leaves the folder.
class TemporaryFolder {
 public:
  // The name begins with `prefix`. kDeviceFault: the folder cannot be created.
  static Result<std::unique_ptr<TemporaryFolder>> make(const std::string& prefix) {
    std::string path = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) {
      return Status::device_fault("mkdtemp", errno,
                                  text("cannot create a temporary folder: ", path));
    }
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) { start_watcher(); }

  // Starts a shell that reads from a pipe whose write end this process holds. When the process
  // ends, the shell reads the end of the input and removes the folder. The first shell ends
  // immediately, so that the watcher is not a child of this process. The watcher has its own
  // session, because a terminal sends SIGINT and SIGHUP to the processes of the terminal's session.
  // Errors are ignored.
  void start_watcher() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    const UniqueFd input(ends[0]);
    alive_.reset(ends[1]);
    std::string shell = "/bin/sh";
    std::string option = "-c";
    std::string script = "{ read -r _ <&3; rm -rf -- \"$0\"; } &";
    std::string argument = path_;
    std::array<char*, 5> arguments = {shell.data(), option.data(), script.data(), argument.data(),
                                      nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Not standard input, which shells replace in background commands.
    constexpr int kShellInput = 3;
    posix_spawn_file_actions_adddup2(&actions, input.get(), kShellInput);
    // If the watcher inherited a pipe as a standard stream, the pipe's reader would not see the end
    // of the output before the watcher ends.
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    pid_t child = 0;
    std::array<char*, 1> no_variables = {nullptr};  // the shell has a default path
    const int code = ::posix_spawn(&child, shell.c_str(), &actions, &attributes, arguments.data(),
                                   no_variables.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0) return;
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  const std::string path_;
  UniqueFd alive_;  // the end of the watcher's pipe; forked processes inherit it
};

}  // namespace ashlar
