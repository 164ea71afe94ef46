// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of an MPI program find each other by Ashlar's own means.
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

// A folder that all ranks see, for as long as rank 0 lives.
class MeetingPlace {
 public:
  explicit MeetingPlace(int rank) : is_owner_(rank == 0) {
    if (is_owner_) {
      const std::string wanted =
          (std::filesystem::temp_directory_path() / "ashlar-beside-XXXXXX").string();
      std::copy_n(wanted.c_str(), std::min(wanted.size(), path_.size() - 1), path_.begin());
      if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder: " + wanted);
    }
    MPI_Bcast(path_.data(), static_cast<int>(path_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~MeetingPlace() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (is_owner_) std::filesystem::remove_all(path_.data(), ignored);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  std::shared_ptr<Store> store() const { return unwrap(open_file_store(path_.data())); }

 private:
  const bool is_owner_;
  std::array<char, 1024> path_{};
};

}  // namespace ashlar::symm
