// SPDX-License-Identifier: Apache-2.0
//
// Owns a file descriptor and closes it. Errors from close(2) are ignored: the descriptor is closed
// even then.
//
// Errors: none.
#pragma once

#include <utility>

#include "ashlar/export.h"

namespace ashlar {

class ASHLAR_EXPORT UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace ashlar
