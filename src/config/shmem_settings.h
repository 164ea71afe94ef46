// What the environment says to a program of ashlar::shmem: which PE it is, of how many, and where
// they meet. Launchers set it: `ashlar symm-run`, or others whose variables are simple.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/store.h"
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

// Where in the store of a job it stands that all are to end, and with which status: PEs write it,
// and their launcher looks.
inline std::string shmem_exit_key(const std::string& job) {
  return "ashlar-shmem/" + job + "/exit";
}

// What stands there, as a shell sees it; none: nothing does, or the store does not say in time.
// What makes no sense counts as 1.
ASHLAR_EXPORT std::optional<int> shmem_exit_status(symm::Store& store, const std::string& job,
                                                   Deadline deadline);

// kUsage: a value is wrong, or one is missing that another needs.
Result<ShmemSettings> shmem_settings_from(const Environment& environment);
// What this process was given. For the library of that name, which does not see inside this one.
ASHLAR_EXPORT Result<ShmemSettings> shmem_settings_of_process();

}  // namespace ashlar
