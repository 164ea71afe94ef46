// SPDX-License-Identifier: Apache-2.0
//
// A way in that works once: an address may be seen by other users, who can list processes with
// their arguments, so a browser is handed a ticket instead of the token, and exchanges it. Who
// comes with it must be a process of the same user. Thread safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::http {

class TicketBooth {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kValid{60};

  // A new one; the one before is worth nothing any more.
  // kDeviceFault: the system has no random bytes.
  Result<std::string> issue(Time now);
  // Whether there ever was one: where there are none, there is no place for them either.
  bool has_issued() const;
  // True once for each ticket, and not after its time.
  bool redeem(std::string_view ticket, Time now);

 private:
  mutable Mutex mutex_;
  bool has_issued_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::string ticket_ ASHLAR_GUARDED_BY(mutex_){};  // empty: none
  Time valid_until_ ASHLAR_GUARDED_BY(mutex_){};
};

// Both ends of a connection over 127.0.0.1.
struct LoopbackPorts {
  uint16_t own = 0;
  uint16_t peer = 0;
};
// Whose the peer's end is, according to the lines of /proc/net/tcp; none: it is not listed, or is
// nobody's any more.
std::optional<uid_t> peer_user_in(std::string_view lines, const LoopbackPorts& ports);
// Whether the other end of a connection over 127.0.0.1 is our user's; false where nobody can tell.
bool is_own_users(int socket_fd);

}  // namespace ashlar::http
