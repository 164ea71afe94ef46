// SPDX-License-Identifier: Apache-2.0
//
// What the public facades throw. Inside the library failures are values (`Status`); they become
// exceptions at one place, on their way out.
#pragma once

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar {

// The device has no memory, after everything was tried. what() is the report.
class ASHLAR_EXPORT OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(Status status)
      : status_(std::make_shared<const Status>(std::move(status))) {}
  const char* what() const noexcept override { return status_->message().c_str(); }
  const Status& status() const { return *status_; }

 private:
  std::shared_ptr<const Status> status_;  // copying an exception must not fail
};

// Any other failure. what() says it in words, status() for programs.
class ASHLAR_EXPORT Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : runtime_error(status.to_string()),
        status_(std::make_shared<const Status>(std::move(status))) {}
  const Status& status() const { return *status_; }

 private:
  std::shared_ptr<const Status> status_;
};

// The caller's mistake; nothing changed.
class ASHLAR_EXPORT InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A driver or system call failed, or the device is lost.
class ASHLAR_EXPORT DeviceError : public Error {
 public:
  using Error::Error;
};

// Unreadable input.
class ASHLAR_EXPORT FormatError : public Error {
 public:
  using Error::Error;
};

// A deadline passed. What was begun is taken back, and may be tried again.
class ASHLAR_EXPORT TimeoutError : public Error {
 public:
  using Error::Error;
};

// Another rank died or gave up; every later call on that group throws the same.
class ASHLAR_EXPORT PeerError : public Error {
 public:
  using Error::Error;
};

}  // namespace ashlar
