// SPDX-License-Identifier: Apache-2.0
//
// Errors as values: `Status`, and `Result<T>` for functions that return something.
//
// Extension points (`Device`, `Store`, `Transport`, `SegmentSource`) return these and must not
// throw, because the library reports errors as values internally. Functions that a program calls
// throw instead: see ashlar/errors.h. `Result::value` throws the exception that matches an error.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/export.h"

namespace ashlar {

// The kind of an error determines what a caller can do about it.
enum class StatusKind {
  kOk,
  kOutOfMemory,      // Not enough memory. Free something and try again. Nothing changed.
  kInvalidArgument,  // A precondition does not hold. Nothing changed.
  kUnsupported,      // The device lacks the capability (see its properties). Nothing changed.
  kDeviceFault,      // A driver or system call failed; see Status::code.
  kDeviceLost,       // The device failed permanently: every later call on it fails the same way.
  kFormat,           // Malformed data: a file, a handle, or a record from a store or a peer.
  kTimeout,          // A deadline passed. The message names what was being waited for.
  kPeerLost,         // Another rank died or aborted: its group has failed permanently.
  kHostOutOfMemory,  // The library could not allocate host memory for itself. Nothing changed.
};

// Returns "out of memory", "invalid argument", and so on.
ASHLAR_EXPORT std::string_view name(StatusKind kind);

// The outcome of a call: ok, or a kind and a message that states what was wanted, what was found
// and what to do. One pointer wide; null means ok. Copies share the description, so that copying
// cannot fail.
class [[nodiscard]] ASHLAR_EXPORT Status {
 public:
  Status() = default;
  Status(const Status& other) noexcept : detail_(other.ok() ? nullptr : other.share_detail()) {}
  Status(Status&& other) noexcept = default;
  Status& operator=(const Status& other) noexcept { return *this = Status(other); }
  Status& operator=(Status&& other) noexcept = default;
  ~Status() = default;

  static Status out_of_memory(std::string message);
  static Status invalid_argument(std::string message);
  static Status unsupported(std::string message);
  static Status format(std::string message);
  static Status timeout(std::string message);
  static Status peer_lost(std::string message);
  // Needs no memory itself.
  static Status host_out_of_memory() noexcept;
  // `call` is the name of the driver or system function that failed; `code` is its error number.
  static Status device_fault(std::string_view call, long code, std::string message);
  static Status device_lost(std::string_view call, long code, std::string message);

  bool ok() const { return detail_ == nullptr; }
  bool is(StatusKind kind) const { return this->kind() == kind; }
  bool is_out_of_memory() const { return is(StatusKind::kOutOfMemory); }

  StatusKind kind() const;
  const std::string& message() const;      // empty if ok
  const std::string& failed_call() const;  // empty unless a driver or system call failed
  long code() const;                       // 0 unless a driver or system call failed

  // Returns "out of memory: device 0 has 2.00 MiB free, 4.00 MiB wanted", for example; "ok" if ok.
  std::string to_string() const;

 private:
  struct Detail;
  struct Deleter {
    void operator()(const Detail* detail) const;
  };
  using SharedDetail = std::unique_ptr<const Detail, Deleter>;  // one reference
  explicit Status(SharedDetail detail) noexcept : detail_(std::move(detail)) {}
  static Status make(StatusKind kind, std::string message, std::string_view call = {},
                     long code = 0);
  SharedDetail share_detail() const noexcept;

  SharedDetail detail_;  // null: ok
};

// Throws the exception of ashlar/errors.h that matches the status; std::bad_alloc for
// kHostOutOfMemory. REQUIRES: !status.ok().
[[noreturn]] ASHLAR_EXPORT void throw_status(Status status);

// Throws unless the status is ok.
inline void throw_if_error(Status status) {
  if (!status.ok()) throw_status(std::move(status));
}

// A value, or the status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // REQUIRES: !failure.ok(). An ok status is turned into a kDeviceFault.
  Result(Status failure) : status_(std::move(failure)) {
    if (status_.ok()) status_ = Status::device_fault("Result", 0, "neither a value nor an error");
  }
  // Converts from a result of a convertible type, such as a pointer to a derived class.
  template <typename U>
  requires std::convertible_to<U, T> Result(Result<U> other) : status_(other.status()) {
    if (other.ok()) value_ = *std::move(other);
  }

  bool ok() const { return status_.ok(); }
  // Returns ok if and only if there is a value.
  const Status& status() const { return status_; }

  // Returns the value. Throws the matching exception (ashlar/errors.h) if there is none.
  T& value() & {
    check_value();
    return *value_;
  }
  const T& value() const& {
    check_value();
    return *value_;
  }
  T&& value() && {
    check_value();
    return *std::move(value_);
  }

  // Unchecked access. REQUIRES: ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  void check_value() const {
    if (!status_.ok()) throw_status(status_);
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace ashlar
