// SPDX-License-Identifier: Apache-2.0
//
// A temporary folder in which the ranks of an MPI program rendezvous.
#pragma once

#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include "api/unwrap.h"
#include "ashlar/store.h"

namespace ashlar::symm {

// Rank 0 creates the folder and removes it; all ranks must be on one machine.
class RendezvousFolder {
 public:
  explicit RendezvousFolder(int rank) : is_owner_(rank == 0) {
    if (is_owner_) {
      const std::string wanted =
          (std::filesystem::temp_directory_path() / "ashlar-beside-XXXXXX").string();
      std::copy_n(wanted.c_str(), std::min(wanted.size(), path_.size() - 1), path_.begin());
      if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder: " + wanted);
    }
    MPI_Bcast(path_.data(), static_cast<int>(path_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~RendezvousFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (is_owner_) std::filesystem::remove_all(path_.data(), ignored);
  }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;

  std::shared_ptr<Store> store() const { return unwrap(try_open_file_store(path_.data())); }

 private:
  const bool is_owner_;
  std::array<char, 1024> path_{};
};

}  // namespace ashlar::symm
