// SPDX-License-Identifier: Apache-2.0
//
// Four processes add up their vectors: each writes its own into symmetric memory, and one call
// leaves the sum in everybody's. A folder is where they meet. With a number as argument, so many.
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
constexpr std::chrono::seconds kPatience{30};

float run_rank(const std::string& folder, int rank, int world_size) {
  const auto store = symm::open_file_store(folder);
  if (!store.ok()) throw Error(store.status());
  symm::Heap heap;
  symm::Group group = symm::Group::join(
      heap, *store, {.rank = rank, .world_size = world_size, .timeout = kPatience});
  const symm::Buffer buffer = heap.allocate(kCount * sizeof(float));
  const symm::Handle handle = group.rendezvous(buffer, kPatience);

  for (float& number : buffer.as<float>()) number = static_cast<float>(rank + 1);
  handle.all_reduce(kCount, {symm::ElementType::kF32, symm::ReduceOp::kSum},
                    {.timeout = kPatience});
  // What the next rank has, read from its own memory.
  const float seen = handle.view<float>((rank + 1) % world_size, kCount)[kCount - 1];
  group.leave(kPatience);
  return seen;
}

int report_rank(const std::string& folder, int rank, int world_size) {
  try {
    const float sum = run_rank(folder, rank, world_size);
    if (rank == 0) std::printf("%d ranks: the sum is %g everywhere\n", world_size, sum);
    std::fflush(stdout);
    return sum == static_cast<float>(world_size * (world_size + 1) / 2) ? 0 : 1;
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "rank %d: %s\n", rank, failed.what());
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
  bool is_well = true;
  for (int status = 0; ::wait(&status) > 0;) is_well &= status == 0;
  std::filesystem::remove_all(folder);
  return is_well ? 0 : 1;
}
