// SPDX-License-Identifier: Apache-2.0
//
// fork, run, collect.
#include "mp/ranks.h"

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

Ranks::Ranks(int world_size, const RankBody& body)
    : Ranks(world_size, BareBody([&body](const BareRank& rank) {
              RankParts parts(rank.rank, rank.world_size, rank.store);
              return body(parts);
            })) {}

Ranks::Ranks(int world_size, const BareBody& body) {
  for (int rank = 0; rank < world_size; ++rank) {
    children_.push_back(std::make_unique<ChildProcess>([&, rank](int) {
      std::string said;
      {
        const size_t fds_before = open_fd_count();
        try {  // a child that throws must not go on as a second test
          said = body({rank, world_size, *open_file_store(folder_.path())});
        } catch (const std::exception& thrown) {
          said = thrown.what();
        }
        if (open_fd_count() != fds_before) said += " [descriptors are left open]";
        if (symmetric_mapping_count() != 0) said += " [memory is left mapped]";
      }
      std::ofstream(said_.path() + "/" + std::to_string(rank)) << said;
      return 0;
    }));
  }
}

std::string Ranks::outcome(int rank) {
  const int ended = children_[rank]->wait();
  if (ended > 128) return "killed";
  std::ifstream file(said_.path() + "/" + std::to_string(rank));
  std::string said{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (ended != 0) said += " [ended with " + std::to_string(ended) + "]";
  return said;
}

std::vector<std::string> Ranks::outcomes_but(int rank) {
  std::vector<std::string> all(children_.size());
  for (int each = 0; each < static_cast<int>(children_.size()); ++each) {
    if (each != rank) all[each] = outcome(each);
  }
  return all;
}

std::vector<std::string> Ranks::outcomes_with_late(int stopped) {
  std::vector<std::string> all = outcomes_but(stopped);
  children_[stopped]->go_on();
  all[stopped] = outcome(stopped);
  return all;
}

std::vector<std::string> Ranks::outcomes(int killed_last) {
  std::vector<std::string> all = outcomes_but(killed_last);
  if (killed_last >= 0) {
    children_[killed_last]->kill();
    all[killed_last] = "killed";
  }
  return all;
}

// By the head of each file (file_store.cc): eight bytes of magic, then how long it lives from when
// it was touched.
std::vector<std::string> Ranks::left_in_store_after_parting() const {
  const auto then = fs::file_time_type::clock::now() + 3 * RankParts::quick().lease;
  std::vector<std::string> left;
  for (const std::string& name : left_in_store()) {
    const std::string path = folder_.path() + "/" + name;
    if (fs::is_directory(path)) continue;
    std::array<char, 16> head{};
    std::ifstream(path, std::ios::binary).read(head.data(), head.size());
    uint64_t life_ns = 0;
    std::memcpy(&life_ns, head.data() + 8, sizeof(life_ns));
    const auto end = fs::last_write_time(path) + std::chrono::nanoseconds(life_ns);
    if (life_ns == 0 || end > then) left.push_back(name);
  }
  return left;
}

std::vector<std::string> Ranks::left_in_store() const {
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
