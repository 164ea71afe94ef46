// SPDX-License-Identifier: Apache-2.0
//
// The importer's end of the connection to an exporter. As long as it lives, the exporter keeps the
// block; when it ends, or its process does, the kernel tells the exporter.
// Not thread safe, except is_exporter_alive.
#pragma once

#include <chrono>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "share/share_format.h"

namespace ashlar {

class Lease {
 public:
  // kDeviceFault: the exporter is gone. kInvalidArgument: it belongs to another user.
  static Result<Lease> connect(const ShareHandle& handle, std::chrono::milliseconds timeout);

  // The first question makes it a lease. Of granules, the descriptors from `first_granule` on, as
  // many as come at once: at least one. Of a plain allocation, none.
  // kDeviceFault: the exporter ended the share, refused, or did not answer in time.
  Result<std::vector<UniqueFd>> ask(uint64_t first_granule);

  bool is_exporter_alive() const;

 private:
  Lease(const ShareHandle& handle, std::chrono::milliseconds timeout, UniqueFd connection);

  ShareHandle handle_;
  std::chrono::milliseconds timeout_;
  UniqueFd connection_;
};

}  // namespace ashlar
