// SPDX-License-Identifier: Apache-2.0
//
// A process that lets itself be watched: `ashlar top PID` in a terminal, `ashlar view --live PID`
// in the browser, and Prometheus. docs/guide/viewer.md shows how, docs/formats/live.md what is
// told.
//
//   ashlar::LiveServer live;                     // `ashlar top` finds the process by its number
//   ashlar::LiveServer live({.port = 9464, .token = token});   // and Prometheus at that port, too
//
// Nothing is shown unless a program, or the environment (ASHLAR_LIVE), asks for it. All allocators
// of the process are shown, also those that are made later. Whoever watches changes nothing (a
// snapshot is noted in the history, as every one is) and keeps nobody waiting: numbers are copied
// out, and then sent by threads of the server's own. It is for this machine only: a Unix socket for
// processes of the same user, and, if wanted, a port of 127.0.0.1 for those who know the token. No
// path of the file system can be reached.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ashlar/export.h"

namespace ashlar {

struct LiveOptions {
  std::optional<uint16_t> port{};  // of 127.0.0.1, too; 0: a free one
  // What has to be known to be answered there: 16 to 128 letters, digits, '-' and '_'. Empty: one
  // is drawn.
  std::string token{};
};

class ASHLAR_EXPORT LiveServer {
 public:
  // Throws InvalidArgument: the token is too short or has other characters, or comes without a
  // port. DeviceError: the port is taken, or the system refuses.
  explicit LiveServer(const LiveOptions& options = {});
  // Whoever is being answered is hung up on.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  // The abstract name of the Unix socket.
  const std::string& socket_name() const;
  // "http://127.0.0.1:PORT/TOKEN/"; empty without a port.
  std::string address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ashlar
