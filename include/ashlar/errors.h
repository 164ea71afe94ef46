// SPDX-License-Identifier: Apache-2.0
//
// The exceptions of the public API, and its error model.
//
//   Functions that a program calls throw. Interfaces that a program implements (`Device`, `Store`,
//   `Transport`, `SegmentSource`, hooks) must not throw; functions that can fail return `Status` or
//   `Result`.
//
// The reason: the library's internals are exception-free, so an error crosses an extension point as
// a value, while an application gets RAII types and no result that it could forget to check.
// Unless documented otherwise, a function that throws has changed nothing, except that some of its
// work may be done if it throws DeviceError.
//
// Any function may also throw std::bad_alloc if the library lacks host memory for itself; it has
// then changed nothing, except that caches may be released and pending frees completed.
// Destructors, Buffer::reset and frees need no host memory.
//
// Some functions have a second form with the prefix `try_`, which returns a Result instead. It is
// for programs that expect failures, such as a program that tries CUDA before HIP.
#pragma once

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar {

// Thrown for kOutOfMemory: memory is insufficient even after trimming caches. what() returns
// Status::message().
class ASHLAR_EXPORT OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(Status status)
      : status_(std::make_shared<const Status>(std::move(status))) {}
  const char* what() const noexcept override { return status_->message().c_str(); }
  const Status& status() const { return *status_; }

 private:
  std::shared_ptr<const Status> status_;  // shared, so that copying the exception cannot fail
};

// Base class of all other errors. what() returns Status::to_string().
class ASHLAR_EXPORT Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : runtime_error(status.to_string()),
        status_(std::make_shared<const Status>(std::move(status))) {}
  const Status& status() const { return *status_; }

 private:
  std::shared_ptr<const Status> status_;
};

// Thrown for kInvalidArgument and kUnsupported: the call cannot succeed as written. Nothing
// changed.
class ASHLAR_EXPORT InvalidArgument : public Error {
 public:
  using Error::Error;
};

// Thrown for kDeviceFault and kDeviceLost: a driver or system call failed, or the device is lost.
class ASHLAR_EXPORT DeviceError : public Error {
 public:
  using Error::Error;
};

// Thrown for kFormat: the input is malformed.
class ASHLAR_EXPORT FormatError : public Error {
 public:
  using Error::Error;
};

// Thrown for kTimeout: a deadline passed. The call may be repeated.
class ASHLAR_EXPORT TimeoutError : public Error {
 public:
  using Error::Error;
};

// Thrown for kPeerLost: another rank died or aborted. Every later operation of the same group
// throws the same error.
class ASHLAR_EXPORT PeerError : public Error {
 public:
  using Error::Error;
};

}  // namespace ashlar
