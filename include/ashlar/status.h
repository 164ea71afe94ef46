// SPDX-License-Identifier: Apache-2.0
//
// How a call says that it failed: `Status`, and `Result<T>` for calls that return something.
// Nothing in the library below the public facades throws; these two carry every failure.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/export.h"

namespace ashlar {

// What kind of failure it is decides what a caller can do about it.
enum class StatusKind {
  kOk,
  kOutOfMemory,      // there is no room; give something back and try again. Nothing changed.
  kInvalidArgument,  // the caller's mistake: a precondition does not hold. Nothing changed.
  kUnsupported,      // this device cannot do that; its properties say so. Nothing changed.
  kDeviceFault,      // a driver or system call failed for a reason of its own; see code().
  kDeviceLost,       // the device failed for good: every later call on it fails the same way.
  kFormat,           // unreadable input: the message says where, and what was expected.
  kTimeout,          // a deadline passed; the message says what was waited for, and for whom.
  kPeerLost,         // another rank died or gave up: its group has failed for good.
};

ASHLAR_EXPORT std::string_view name(StatusKind kind);

// The outcome of a call: ok, or a kind with a sentence that says what was wanted, what was found,
// and what to do. One pointer wide; null means ok.
class [[nodiscard]] ASHLAR_EXPORT Status {
 public:
  Status() = default;
  Status(const Status& other) : detail_(other.ok() ? nullptr : other.copy_detail()) {}
  Status(Status&& other) noexcept = default;
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&& other) noexcept = default;
  ~Status() = default;

  static Status out_of_memory(std::string message);
  static Status invalid_argument(std::string message);
  static Status unsupported(std::string message);
  static Status format(std::string message);
  static Status timeout(std::string message);
  static Status peer_lost(std::string message);
  // `call` is the driver's or system's own name for what failed, `code` its own number for why.
  static Status device_fault(std::string_view call, long code, std::string message);
  static Status device_lost(std::string_view call, long code, std::string message);

  bool ok() const { return detail_ == nullptr; }
  bool is(StatusKind kind) const { return this->kind() == kind; }
  bool is_out_of_memory() const { return is(StatusKind::kOutOfMemory); }

  StatusKind kind() const;
  const std::string& message() const;  // empty when ok
  const std::string& call() const;     // empty unless a driver or system call failed
  long code() const;                   // 0 unless a driver or system call failed

  // "out of memory: device 0 has 2.00 MiB free, 4.00 MiB wanted"; "ok" when ok.
  std::string to_string() const;

 private:
  struct Detail;
  struct Deleter {
    void operator()(const Detail* detail) const;
  };
  using OwnDetail = std::unique_ptr<const Detail, Deleter>;
  explicit Status(Detail detail);
  OwnDetail copy_detail() const;

  OwnDetail detail_;  // null: ok
};

// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // REQUIRES: not ok. An ok status has no value to go with it, and becomes a failure that says so.
  Result(Status failure) : status_(std::move(failure)) {
    if (status_.ok()) status_ = Status::device_fault("Result", 0, "neither a value nor a failure");
  }
  // Of something that is a T, too, such as a pointer to what derives from it.
  template <typename U>
  requires std::convertible_to<U, T> Result(Result<U> other) : status_(other.status()) {
    if (other.ok()) value_ = *std::move(other);
  }

  bool ok() const { return status_.ok(); }
  // Ok exactly when there is a value.
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ashlar
