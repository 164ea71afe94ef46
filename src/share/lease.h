// SPDX-License-Identifier: Apache-2.0
//
// The importer's connection to an exporter. After the first granted request, the exporter keeps the
// block until the connection is closed or the exporter exits. When the importer closes the
// connection or exits, the kernel notifies the exporter. Not thread safe, except is_exporter_alive.
#pragma once

#include <chrono>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "share/share_format.h"

namespace ashlar {

class Lease {
 public:
  // Connects to the exporter. kDeviceFault: the exporter has exited or does not accept the
  // connection in time. kInvalidArgument: the exporter belongs to another user.
  static Result<Lease> connect(const ShareHandle& handle, std::chrono::milliseconds timeout);

  // Requests the block; the first request acquires the lease. For granules, returns descriptors
  // from `first_granule` on: at least one, but not necessarily all. For a plain allocation, returns
  // no descriptors. kDeviceFault: the exporter ended the share, refused the request, or did not
  // respond in time.
  Result<std::vector<UniqueFd>> request(uint64_t first_granule);

  bool is_exporter_alive() const;

 private:
  Lease(const ShareHandle& handle, std::chrono::milliseconds timeout, UniqueFd connection);

  ShareHandle handle_;
  std::chrono::milliseconds timeout_;
  UniqueFd connection_;
};

}  // namespace ashlar
