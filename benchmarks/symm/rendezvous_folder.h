// SPDX-License-Identifier: Apache-2.0
//
// A temporary folder in which the ranks of an MPI program rendezvous.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "api/unwrap.h"
#include "ashlar/store.h"
#include "cli/symm/temporary_folder.h"

namespace ashlar::symm {

// Rank 0 creates the folder and removes it; all ranks must be on one machine.
class RendezvousFolder {
 public:
  explicit RendezvousFolder(int rank) {
    if (rank == 0) {
      folder_ = unwrap(TemporaryFolder::make("ashlar-beside"));
      const std::string& path = folder_->path();
      std::copy_n(path.c_str(), std::min(path.size(), path_.size() - 1), path_.begin());
    }
    MPI_Bcast(path_.data(), static_cast<int>(path_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~RendezvousFolder() { MPI_Barrier(MPI_COMM_WORLD); }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;

  std::shared_ptr<Store> store() const { return unwrap(try_open_file_store(path_.data())); }

 private:
  std::unique_ptr<TemporaryFolder> folder_;  // of rank 0; null in other ranks
  std::array<char, 1024> path_{};
};

}  // namespace ashlar::symm
