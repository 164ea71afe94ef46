// SPDX-License-Identifier: Apache-2.0
//
// What the environment says to a program of ashlar::shmem: which PE it is, of how many, and where
// they meet. Launchers set it: `ashlar symm-run`, or others whose variables are simple.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"
#include "config/environment.h"

namespace ashlar {

struct ShmemSettings {
  enum class Way { kNone, kUcx };

  int rank = 0;
  int world_size = 1;
  std::string store{};  // a folder, or redis://...; empty: there is one PE only
  std::string job = "shmem";
  std::string machine{};  // as in symm::HeapOptions
  Way transport = Way::kNone;
  size_t heap_bytes = 0;
  std::chrono::milliseconds timeout{0};  // of meeting; 0: none
};

// kInvalidArgument: a value is wrong, or one is missing that another needs.
Result<ShmemSettings> shmem_settings_from(const Environment& environment);
// What this process was given. For the library of that name, which does not see inside this one.
ASHLAR_EXPORT Result<ShmemSettings> shmem_settings_of_process();

}  // namespace ashlar
