// SPDX-License-Identifier: Apache-2.0
//
// Four processes, or the number given as argument, add their vectors with one all-reduce in
// symmetric memory. They rendezvous through a folder.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ashlar/errors.h"
#include "ashlar/symmetric.h"

using namespace ashlar;

namespace {

constexpr size_t kCount = 1000;
constexpr std::chrono::seconds kTimeout{30};

float run_rank(const std::string& folder, int rank, int world_size) {
  symm::Heap heap;
  symm::Group group =
      symm::Group::join(heap, symm::open_file_store(folder),
                        {.rank = rank, .world_size = world_size, .timeout = kTimeout});
  const symm::SymmetricBuffer buffer = heap.allocate(kCount * sizeof(float));
  const symm::Handle handle = group.rendezvous(buffer, kTimeout);

  const std::span<float> numbers = buffer.as<float>();
  for (float& number : numbers) number = static_cast<float>(rank + 1);
  handle.all_reduce(numbers, symm::ReduceOp::kSum, {.timeout = kTimeout});
  // Reads the result in the memory of the next rank.
  const float sum = handle.view<float>((rank + 1) % world_size, kCount)[kCount - 1];
  group.leave(kTimeout);
  return sum;
}

int report_rank(const std::string& folder, int rank, int world_size) {
  try {
    const float sum = run_rank(folder, rank, world_size);
    if (rank == 0) std::printf("%d ranks: the sum is %g everywhere\n", world_size, sum);
    std::fflush(stdout);
    return sum == static_cast<float>(world_size * (world_size + 1) / 2) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int world_size = count > 1 ? std::atoi(arguments[1]) : 4;
  std::string folder = (std::filesystem::temp_directory_path() / "ashlar-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  for (int rank = 0; rank < world_size; ++rank) {
    if (::fork() == 0) ::_exit(report_rank(folder, rank, world_size));
  }
  bool all_succeeded = true;
  for (int status = 0; ::wait(&status) > 0;) all_succeeded &= status == 0;
  std::filesystem::remove_all(folder);
  return all_succeeded ? 0 : 1;
}
