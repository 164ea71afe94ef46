// SPDX-License-Identifier: Apache-2.0
//
// Creates, finds and destroys streams.
#include "device/sim/stream_table.h"

#include "base/text.h"

namespace ashlar::sim {

StreamTable::StreamTable(const Options& options, Clock& clock)
    : clock_(clock),
      scheduler_(options.seed ? std::make_unique<Scheduler>(*options.seed) : nullptr) {
  for (size_t i = 0; i < options.device_count; ++i)
    default_streams_.push_back(make_stream(DeviceIndex(i), 0));
}

void StreamTable::stop() {
  // Streams are stopped without the lock, because dropping a task destroys a user's function
  // object.
  std::vector<std::shared_ptr<SimStream>> all = default_streams_;
  {
    WriterLock lock(mutex_);
    for (const auto& [id, stream] : streams_) all.push_back(stream);
    all.insert(all.end(), retired_.begin(), retired_.end());
  }
  for (const auto& stream : all) stream->stop();
  // Joins the streams while `all` owns every stream: work that fails accesses all streams of its
  // device, and must not drop the last reference to the stream that it runs on.
  for (const auto& stream : all) stream->join();
}

std::shared_ptr<SimStream> StreamTable::make_stream(DeviceIndex device, int priority) {
  return std::make_shared<SimStream>(device, priority, clock_, scheduler_.get());
}

StreamId StreamTable::create(DeviceIndex device, int priority) {
  std::shared_ptr<SimStream> stream = make_stream(device, priority);
  WriterLock lock(mutex_);
  const StreamId id(++last_id_);
  streams_.emplace(id, std::move(stream));
  return id;
}

Result<std::shared_ptr<SimStream>> StreamTable::find(DeviceIndex device, StreamId id) const {
  if (id == kDefaultStream) return default_streams_[device.value()];
  ReaderLock lock(mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second->device() != device) {
    return Status::invalid_argument(text("stream ", id, " is not a stream of device ", device));
  }
  return found->second;
}

Status StreamTable::destroy(DeviceIndex device, StreamId id) {
  if (id == kDefaultStream)
    return Status::invalid_argument("the default stream cannot be destroyed");
  Result<std::shared_ptr<SimStream>> stream = find(device, id);
  if (!stream.ok()) return stream.status();
  (*stream)->close();
  // Destroyed after unlocking, because destruction waits for the worker threads.
  std::vector<std::shared_ptr<SimStream>> finished;
  WriterLock lock(mutex_);
  streams_.erase(id);
  retired_.push_back(*stream);
  for (auto it = retired_.begin(); it != retired_.end();) {
    if ((*it)->is_idle()) {
      finished.push_back(std::move(*it));
      it = retired_.erase(it);
    } else {
      ++it;
    }
  }
  return {};
}

std::vector<std::shared_ptr<SimStream>> StreamTable::streams_of(DeviceIndex device) const {
  std::vector<std::shared_ptr<SimStream>> found{default_streams_[device.value()]};
  ReaderLock lock(mutex_);
  for (const auto& [id, stream] : streams_) {
    if (stream->device() == device) found.push_back(stream);
  }
  for (const auto& stream : retired_) {
    if (stream->device() == device) found.push_back(stream);
  }
  return found;
}

Status StreamTable::wait(const Completion& awaited) {
  if (scheduler_) return scheduler_->run_until(awaited);
  awaited.wait();
  return {};
}

}  // namespace ashlar::sim
