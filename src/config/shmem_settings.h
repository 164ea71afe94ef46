// SPDX-License-Identifier: Apache-2.0
//
// Settings of an ashlar::shmem program, from the environment: its PE number, the number of PEs, and
// the store through which they rendezvous. Launchers such as `ashlar run` set these three.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"
#include "config/environment.h"

namespace ashlar {

struct ShmemSettings {
  enum class TransportKind { kNone, kUcx };

  int rank = 0;
  int world_size = 1;
  std::string store{};  // a directory or redis://…; may be empty with one PE
  std::string job = "shmem";
  std::string machine{};  // see symm::HeapOptions
  TransportKind transport = TransportKind::kNone;
  size_t heap_bytes = 0;
  std::chrono::milliseconds timeout{0};  // timeout of shmem_init; 0: no timeout
  // Whether shmem_init prints the version (on PE 0), the variables (on PE 0) and the memory of the
  // PE (on every PE).
  bool prints_version = false;
  bool prints_info = false;
  bool prints_debug = false;
};

// Parses the settings. kInvalidArgument: a value is wrong, or a setting that another setting
// requires is missing.
Result<ShmemSettings> shmem_settings_from(const Environment& environment);
// Parses the settings in the environment of this process. Exported for libashlar_shmem, a separate
// library.
ASHLAR_EXPORT Result<ShmemSettings> shmem_settings_of_process();

// Returns one line for each environment variable of OpenSHMEM programs: its name, meaning, expected
// value and default.
ASHLAR_EXPORT std::string shmem_variables_text();

}  // namespace ashlar
