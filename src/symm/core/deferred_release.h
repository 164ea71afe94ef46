// SPDX-License-Identifier: Apache-2.0
//
// `GraphObjects`: the objects of symmetric memory that one graph of a device owns, so that the
// graph can be launched after their other owners have been destroyed. `DeferredRelease`: destroys
// these objects after the graph. A driver may release a graph's objects in a thread of its own,
// which must not call the device, but their destructors unmap memory. Both are thread safe.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace ashlar::symm {

class DeferredRelease {
 public:
  using Objects = std::list<std::shared_ptr<const void>>;

  // Takes over the objects. Neither allocates memory nor destroys an object.
  void add(Objects& objects) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    released_.splice(released_.end(), objects);
  }
  // Drops the references to all objects that were added, those of one graph in reverse order, so
  // that an object may use those added before it.
  void collect() ASHLAR_EXCLUDES(mutex_) {
    Objects released;
    {
      MutexLock lock(mutex_);
      released.swap(released_);
    }
    while (!released.empty()) released.pop_back();
  }

 private:
  Mutex mutex_;
  Objects released_ ASHLAR_GUARDED_BY(mutex_);
};

class GraphObjects {
 public:
  explicit GraphObjects(std::shared_ptr<DeferredRelease> release) : release_(std::move(release)) {}
  ~GraphObjects() {
    MutexLock lock(mutex_);
    release_->add(objects_);
  }
  GraphObjects(const GraphObjects&) = delete;
  GraphObjects& operator=(const GraphObjects&) = delete;

  // Makes the graph an owner of `object`. Does nothing if the graph already owns the object.
  void add(std::shared_ptr<const void> object) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (std::ranges::find(objects_, object) != objects_.end()) return;
    objects_.push_back(std::move(object));
  }

 private:
  const std::shared_ptr<DeferredRelease> release_;  // also owned by the heap

  Mutex mutex_;
  DeferredRelease::Objects objects_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
