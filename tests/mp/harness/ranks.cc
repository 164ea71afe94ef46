// SPDX-License-Identifier: Apache-2.0
//
// Forks the ranks, checks them for leaks and collects their results.
#include "mp/harness/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ashlar::symm {
namespace {

namespace fs = std::filesystem;

}  // namespace

RankProcesses::RankProcesses(int world_size, const RankBody& body)
    : RankProcesses(world_size, RankMain([&body](const RankSpec& rank) {
                      RankContext context(rank.rank, rank.world_size, rank.store);
                      return body(context);
                    })) {}

RankProcesses::RankProcesses(int world_size, const RankMain& body) {
  for (int rank = 0; rank < world_size; ++rank) {
    children_.push_back(std::make_unique<ChildProcess>([&, rank](int) {
      std::string message;
      {
        const size_t fds_before = open_fd_count();
        try {  // an uncaught exception would continue the test in the child
          message = body({rank, world_size, *try_open_file_store(folder_.path())});
        } catch (const std::exception& thrown) {
          message = thrown.what();
        }
        if (open_fd_count() != fds_before) message += " [leaked descriptors]";
        if (symmetric_mapping_count() != 0) message += " [leaked mappings]";
      }
      std::ofstream(messages_.path() + "/" + std::to_string(rank)) << message;
      return 0;
    }));
  }
}

std::string RankProcesses::result_of(int rank) {
  const int ended = children_[rank]->wait();
  if (ended > 128) return "killed";
  std::ifstream file(messages_.path() + "/" + std::to_string(rank));
  std::string message{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (ended != 0) message += " [ended with " + std::to_string(ended) + "]";
  return message;
}

std::vector<std::string> RankProcesses::results_except(int rank) {
  std::vector<std::string> all(children_.size());
  for (int each = 0; each < static_cast<int>(children_.size()); ++each) {
    if (each != rank) all[each] = result_of(each);
  }
  return all;
}

std::vector<std::string> RankProcesses::results_resuming(int stopped) {
  std::vector<std::string> all = results_except(stopped);
  children_[stopped]->resume();
  all[stopped] = result_of(stopped);
  return all;
}

std::vector<std::string> RankProcesses::results(int killed_last) {
  std::vector<std::string> all = results_except(killed_last);
  if (killed_last >= 0) {
    children_[killed_last]->kill();
    all[killed_last] = "killed";
  }
  return all;
}

// Reads the header of each file (see file_store.cc): eight bytes of magic, then the lifetime in
// nanoseconds, which counts from the modification time.
std::vector<std::string> RankProcesses::store_keys_after_three_leases() const {
  const auto moment =
      fs::file_time_type::clock::now() + 3 * RankContext::short_lease_options().lease;
  std::vector<std::string> left;
  for (const std::string& name : store_keys()) {
    const std::string path = folder_.path() + "/" + name;
    if (fs::is_directory(path)) continue;
    std::array<char, 16> head{};
    std::ifstream(path, std::ios::binary).read(head.data(), head.size());
    uint64_t lifetime_ns = 0;
    std::memcpy(&lifetime_ns, head.data() + 8, sizeof(lifetime_ns));
    const auto end = fs::last_write_time(path) + std::chrono::nanoseconds(lifetime_ns);
    if (lifetime_ns == 0 || end > moment) left.push_back(name);
  }
  return left;
}

std::vector<std::string> RankProcesses::store_keys() const {
  std::vector<std::string> left;
  for (const auto& each : fs::recursive_directory_iterator(folder_.path())) {
    const std::string name = fs::relative(each.path(), folder_.path()).string();
    if (name != "lock") left.push_back(name);
  }
  return left;
}

size_t open_fd_count() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

size_t symmetric_mapping_count() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:ashlar-symm") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace ashlar::symm
