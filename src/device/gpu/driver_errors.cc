// SPDX-License-Identifier: Apache-2.0
//
// The kinds of failure, by number.
#include "device/gpu/driver_errors.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ashlar::gpu {
namespace {

// The process can do nothing with the device any more: what device work did cannot be undone, or
// the context is gone.
constexpr std::array kLost = {
    4,    // deinitialized: the driver is shutting down
    214,  // uncorrectable memory error
    220,  // uncorrectable error of a link
    226,  // contained error
    700,  // illegal address
    702,  // launch timeout
    709,  // context is destroyed
    710,  // assert
    714,  // hardware stack error
    715,  // illegal instruction
    716,  // misaligned address
    717,  // invalid address space
    718,  // invalid program counter
    719,  // launch failed
    721,  // tensor memory leak
};

// A precondition does not hold, and the driver is the one that found it.
constexpr std::array kMistakes = {
    kInvalidValue,
    kInvalidHandle,
    17,   // invalid device pointer: of HIP alone
    401,  // illegal state: of a capture
    712,  // host memory already registered
    713,  // host memory not registered
};

constexpr std::array kCannot = {
    217,  // peer access unsupported
    kNotSupported,
};

bool is_about_capture(int code) { return code >= 900 && code <= 908; }

template <size_t count>
bool has(const std::array<int, count>& codes, int code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

}  // namespace

Status status_of(const Driver& driver, const Outcome& outcome) {
  const int code = outcome.code;
  if (has(kLost, code)) {
    return Status::device_lost(outcome.call, code, driver.error_text(code));
  }
  if (code == kOutOfMemory) return Status::out_of_memory(explain(driver, outcome));
  if (has(kMistakes, code) || is_about_capture(code)) {
    return Status::invalid_argument(explain(driver, outcome));
  }
  if (has(kCannot, code)) return Status::unsupported(explain(driver, outcome));
  return Status::device_fault(outcome.call, code, driver.error_text(code));
}

std::string explain(const Driver& driver, const Outcome& outcome) {
  return text(outcome.call, ": ", driver.error_text(outcome.code));
}

}  // namespace ashlar::gpu
