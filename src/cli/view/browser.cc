// SPDX-License-Identifier: Apache-2.0
//
// Starts xdg-open directly, without a shell.
#include "cli/view/browser.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "base/text.h"

namespace ashlar {

bool start_browser(const std::string& address, const Environment& environment) {
  if (!environment.value("DISPLAY") && !environment.value("WAYLAND_DISPLAY")) return false;
  std::signal(SIGCHLD, SIG_IGN);  // the child is reaped automatically
  std::string program = "xdg-open";
  std::string argument = address;
  std::vector<char*> arguments = {program.data(), argument.data(), nullptr};
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment.values()) settings.push_back(text(name, "=", value));
  std::vector<char*> variables;
  for (std::string& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);

  // The child gets /dev/null as its standard streams, and the default handling of the signals that
  // this process ignores.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t ignored;
  ::sigemptyset(&none);
  ::sigemptyset(&ignored);
  ::sigaddset(&ignored, SIGPIPE);
  ::sigaddset(&ignored, SIGCHLD);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &ignored);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int code = posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(),
                                variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code == 0;
}

}  // namespace ashlar
