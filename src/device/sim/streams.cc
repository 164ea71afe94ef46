// SPDX-License-Identifier: Apache-2.0
//
// The table of streams.
#include "device/sim/streams.h"

#include "base/text.h"

namespace ashlar::sim {

Streams::Streams(const Options& options, Clock& clock)
    : clock_(clock),
      scheduler_(options.seed ? std::make_unique<Scheduler>(*options.seed) : nullptr) {
  for (size_t i = 0; i < options.device_count; ++i) defaults_.push_back(make(DeviceIndex(i), 0));
}

Streams::~Streams() {
  // What is dropped may run user code (a functor's end), so not under the lock.
  std::vector<std::shared_ptr<Stream>> all = defaults_;
  {
    WriterLock lock(mutex_);
    for (const auto& [id, stream] : streams_) all.push_back(stream);
    all.insert(all.end(), retired_.begin(), retired_.end());
  }
  for (const auto& stream : all) stream->stop();
  // Work that fails right now looks at all streams, and may be the last to let go of its own.
  for (const auto& stream : all) stream->join();
}

std::shared_ptr<Stream> Streams::make(DeviceIndex device, int priority) {
  auto stream = std::make_shared<Stream>(device, priority, clock_, scheduler_.get());
  if (scheduler_) scheduler_->add(stream);
  return stream;
}

StreamId Streams::create(DeviceIndex device, int priority) {
  std::shared_ptr<Stream> stream = make(device, priority);
  WriterLock lock(mutex_);
  const StreamId id(++last_id_);
  streams_.emplace(id, std::move(stream));
  return id;
}

Result<std::shared_ptr<Stream>> Streams::find(DeviceIndex device, StreamId id) const {
  if (id == kDefaultStream) return defaults_[device.value()];
  ReaderLock lock(mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second->device() != device) {
    return Status::invalid_argument(text("stream ", id, " is not a stream of device ", device));
  }
  return found->second;
}

Status Streams::destroy(DeviceIndex device, StreamId id) {
  if (id == kDefaultStream)
    return Status::invalid_argument("the default stream cannot be destroyed");
  Result<std::shared_ptr<Stream>> stream = find(device, id);
  if (!stream.ok()) return stream.status();
  (*stream)->close();
  // Destroyed after unlocking: that waits for their workers to end.
  std::vector<std::shared_ptr<Stream>> finished;
  WriterLock lock(mutex_);
  streams_.erase(id);
  retired_.push_back(*stream);
  for (auto it = retired_.begin(); it != retired_.end();) {
    if ((*it)->idle()) {
      finished.push_back(std::move(*it));
      it = retired_.erase(it);
    } else {
      ++it;
    }
  }
  return {};
}

std::vector<std::shared_ptr<Stream>> Streams::of_device(DeviceIndex device) const {
  std::vector<std::shared_ptr<Stream>> found{defaults_[device.value()]};
  ReaderLock lock(mutex_);
  for (const auto& [id, stream] : streams_) {
    if (stream->device() == device) found.push_back(stream);
  }
  for (const auto& stream : retired_) {
    if (stream->device() == device) found.push_back(stream);
  }
  return found;
}

Status Streams::wait(const Completion& awaited) {
  if (scheduler_) return scheduler_->run_until(awaited);
  awaited.wait();
  return {};
}

}  // namespace ashlar::sim
