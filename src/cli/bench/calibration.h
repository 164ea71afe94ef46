// SPDX-License-Identifier: Apache-2.0
//
// Detects when the core is slowed down, for example by a process on its sibling hyper-thread or by
// another virtual machine. Figures are comparable only if they were measured at the same speed.
#pragma once

namespace ashlar {

// Runs a fixed loop of about 20 us that uses only the core's registers. Returns its time in ns.
double measure_calibration_loop();

struct Sample {
  double ns = 0;
  double calibration_ns = 0;  // the longer of the calibration loops before and after the sample
};

// A sample counts as disturbed if its calibration loop took more than this multiple of the fastest
// calibration loop in the run.
inline constexpr double kMaxSlowdown = 1.15;

}  // namespace ashlar
