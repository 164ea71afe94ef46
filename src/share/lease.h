// SPDX-License-Identifier: Apache-2.0
//
// The importer's connection to an exporter. While it is open, the exporter keeps the block; when it
// closes, or the process exits, the kernel notifies the exporter. Not thread safe, except
// is_exporter_alive.
#pragma once

#include <chrono>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "share/share_format.h"

namespace ashlar {

class Lease {
 public:
  // kDeviceFault: the exporter has exited. kInvalidArgument: it belongs to another user.
  static Result<Lease> connect(const ShareHandle& handle, std::chrono::milliseconds timeout);

  // Requests the share; the first request acquires the lease. For granules, returns the descriptors
  // from `first_granule` on: at least one, and possibly not all. For a plain allocation, returns
  // none. kDeviceFault: the exporter ended the share, refused, or did not respond in time.
  Result<std::vector<UniqueFd>> request(uint64_t first_granule);

  bool is_exporter_alive() const;

 private:
  Lease(const ShareHandle& handle, std::chrono::milliseconds timeout, UniqueFd connection);

  ShareHandle handle_;
  std::chrono::milliseconds timeout_;
  UniqueFd connection_;
};

}  // namespace ashlar
