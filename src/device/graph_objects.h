// SPDX-License-Identifier: Apache-2.0
//
// Owns the objects that the captured graphs of one device retain, and destroys them after the last
// launch. A driver reports the end of a graph in a thread of its own, which must not call the
// device (CUDA: CUDA_ERROR_NOT_PERMITTED). Therefore the graph owns only a ticket, and a thread of
// this class destroys the objects. Thread safe.
//
// No lock of this class is held while an object is destroyed, and the thread's capture mode is
// kRelaxed, so that destructors may call the device and block, also during captures of other
// threads. A destructor that blocks delays the objects of all other graphs of the device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar {

class GraphObjectReleaser {
 private:
  class State;

 public:
  // Represents the objects of one graph. The destructor makes the releaser destroy the objects. It
  // may run in any thread, also after the releaser has been destroyed, and neither calls the device
  // nor allocates memory.
  class Ticket {
   public:
    Ticket(std::shared_ptr<State> state, uint64_t record)
        : state_(std::move(state)), record_(record) {}
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

   private:
    const std::shared_ptr<State> state_;  // also owned by the releaser
    const uint64_t record_;
  };

  // Gives the ticket to the graph. If this fails, destroys the ticket, now or later.
  using Attach = std::function<Status(std::unique_ptr<Ticket> ticket)>;

  // REQUIRES: `device` outlives the call of shut_down.
  explicit GraphObjectReleaser(Device& device);
  // Calls shut_down. In a forked child, does nothing.
  ~GraphObjectReleaser();
  GraphObjectReleaser(const GraphObjectReleaser&) = delete;
  GraphObjectReleaser& operator=(const GraphObjectReleaser&) = delete;

  // Keeps `object` until the ticket of the capture's graph is destroyed. The objects of a graph are
  // destroyed in reverse order, so that an object may use those retained before it. Does nothing if
  // the graph retains the object already. The first call for a capture calls `attach`. The first
  // call of all starts the thread. Errors are those of `attach`; kDeviceFault: the thread could not
  // be started. REQUIRES: the capture is in progress.
  Status retain(CaptureId capture, std::shared_ptr<const void> object, const Attach& attach)
      ASHLAR_EXCLUDES(attach_mutex_);

  bool is_empty() const;  // whether all objects have been destroyed

  // Destroys all objects, including those of graphs that still exist, and ends the thread.
  // REQUIRES: no launch of these graphs is in progress; retain is not called any more; the caller
  // is not an object's destructor.
  void shut_down();

 private:
  Device& device_;
  const std::shared_ptr<State> state_;  // also owned by tickets

  // Held across `attach`, so that no other call can add an object to a record whose ticket is not
  // attached.
  Mutex attach_mutex_;
};

}  // namespace ashlar
