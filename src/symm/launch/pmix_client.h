// SPDX-License-Identifier: Apache-2.0
//
// A connection to the PMIx server of a launcher such as mpirun, prterun or srun. libpmix is loaded
// at run time, so that programs do not depend on it. Not thread safe.
#pragma once

#include <memory>
#include <string>

#include "ashlar/deadline.h"
#include "ashlar/status.h"

namespace ashlar::symm {

class PmixClient {
 public:
  // kUnsupported: this build or this machine has no libpmix. kDeviceFault: no server responds.
  static Result<std::unique_ptr<PmixClient>> connect();
  virtual ~PmixClient() = default;

  virtual int rank() const = 0;
  virtual Result<int> world_size() = 0;
  // Returns how many ranks of the job are on this machine.
  virtual Result<int> local_size() = 0;
  // Publishes a value of this rank. Other ranks can get it after the next fence.
  virtual Status publish(const std::string& key, const std::string& value) = 0;
  // Waits until all ranks of the job have called it.
  virtual Status fence(Deadline deadline) = 0;
  // Returns a value that another rank published before the last fence.
  virtual Result<std::string> get(int rank, const std::string& key) = 0;
};

}  // namespace ashlar::symm
