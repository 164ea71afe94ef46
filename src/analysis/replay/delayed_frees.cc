// SPDX-License-Identifier: Apache-2.0
//
// Records a stream with blocked work as a user of each block, which keeps the free pending until
// the stream is resumed.
#include "analysis/replay/delayed_frees.h"

namespace ashlar {

Status DelayedFrees::free(uint32_t allocation, Block* block) {
  Device& device = engine_.device();
  if (spare_streams_.empty()) {
    const Result<StreamId> made = device.create_stream();
    if (!made.ok()) return made.status();
    spare_streams_.push_back(*made);
  }
  const StreamId user = spare_streams_.back();
  spare_streams_.pop_back();
  Status status = machine_.pause_stream_until_waited(device.properties().index, user);
  if (status.ok()) status = device.call_host(user, [] {});
  if (status.ok()) status = engine_.record_stream(block, {&device, user});
  if (status.ok()) status = engine_.free(block);
  users_[allocation] = user;
  return status;
}

Status DelayedFrees::complete(uint32_t allocation) {
  const auto found = users_.find(allocation);
  if (found == users_.end()) return {};
  Device& device = engine_.device();
  Status status = machine_.resume_stream(device.properties().index, found->second);
  if (status.ok()) status = device.synchronize_stream(found->second);
  spare_streams_.push_back(found->second);
  users_.erase(found);
  return status;
}

}  // namespace ashlar
