// SPDX-License-Identifier: Apache-2.0
//
// Maps driver error codes to StatusKind, and adds the driver's own error message.
#include "device/gpu/driver_errors.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ashlar::gpu {
namespace {

// Codes after which the process cannot use the device any more, because the context is corrupted or
// destroyed.
constexpr std::array kDeviceLostCodes = {
    4,    // deinitialized: the driver is shutting down
    214,  // uncorrectable memory error
    220,  // uncorrectable error on a link
    226,  // contained error
    700,  // illegal address
    702,  // launch timeout
    709,  // context is destroyed
    710,  // failed assertion
    714,  // hardware stack error
    715,  // illegal instruction
    716,  // misaligned address
    717,  // invalid address space
    718,  // invalid program counter
    719,  // launch failed
    721,  // tensor memory leak
};

// Codes with which a driver reports a violated precondition. Capture errors, 900 to 908, also count
// as invalid arguments.
constexpr std::array kInvalidArgumentCodes = {
    kInvalidValue,
    kInvalidHandle,
    17,   // invalid device pointer (HIP only)
    401,  // illegal state of a capture
    712,  // host memory already registered
    713,  // host memory not registered
};

constexpr std::array kUnsupportedCodes = {
    217,  // peer access unsupported
    kNotSupported,
};

bool is_capture_error(int code) { return code >= 900 && code <= 908; }

template <size_t count>
bool contains(const std::array<int, count>& codes, int code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

}  // namespace

Status status_of(const Driver& driver, const DriverResult& result) {
  const int code = result.code;
  if (contains(kDeviceLostCodes, code)) {
    return Status::device_lost(result.call, code, driver.error_text(code));
  }
  if (code == kOutOfMemory) return Status::out_of_memory(explain(driver, result));
  if (contains(kInvalidArgumentCodes, code) || is_capture_error(code)) {
    return Status::invalid_argument(explain(driver, result));
  }
  if (contains(kUnsupportedCodes, code)) return Status::unsupported(explain(driver, result));
  return Status::device_fault(result.call, code, driver.error_text(code));
}

std::string explain(const Driver& driver, const DriverResult& result) {
  return text(result.call, ": ", driver.error_text(result.code));
}

}  // namespace ashlar::gpu
