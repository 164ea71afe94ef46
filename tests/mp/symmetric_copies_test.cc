// SPDX-License-Identifier: Apache-2.0
//
// Copies of pieces and copies in streams: on host memory, on simulated devices, and on the stand-in
// driver or, with ASHLAR_TEST_DEVICE=cuda, on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "mp/harness/gpu_rank.h"
#include "mp/harness/graph_program.h"

namespace ashlar::symm {
namespace {

using Bytes = std::vector<std::byte>;
using CopyBody = std::function<std::string(DeviceRank& own)>;

constexpr size_t kCopyBytes = 8192;  // the part of each buffer that is used
constexpr auto kUntouched = std::byte{0x5A};

RankMain on_simulated(const CopyBody& body) {
  return [body](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    std::string wrong = body(own);
    if (wrong.empty()) own.group.leave(kTestTimeout);
    return wrong;
  };
}

int next_rank(const Handle& handle) { return (handle.rank() + 1) % handle.world_size(); }
int previous_rank(const Handle& handle) {
  return (handle.rank() + handle.world_size() - 1) % handle.world_size();
}

Bytes pattern(int rank) {
  Bytes bytes(kCopyBytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + i / 256 + static_cast<size_t>(rank) * 89) & 0xFF);
  }
  return bytes;
}

void write_own(const Handle& handle, const Bytes& bytes) { handle.put(handle.rank(), bytes); }
Bytes read_own(const Handle& handle) {
  Bytes bytes(kCopyBytes);
  handle.get(handle.rank(), bytes);
  return bytes;
}

// Copies pieces between two arrays, as the model of a put.
Bytes with_pieces(Bytes to, size_t to_begin, const Bytes& from, size_t from_begin,
                  const StridedCopy& copy, bool is_put) {
  const auto to_stride = static_cast<size_t>(is_put ? copy.rank_stride : copy.caller_stride);
  const auto from_stride = static_cast<size_t>(is_put ? copy.caller_stride : copy.rank_stride);
  for (size_t piece = 0; piece < static_cast<size_t>(copy.count); ++piece) {
    for (size_t i = 0; i < static_cast<size_t>(copy.bytes); ++i) {
      to[to_begin + piece * to_stride + i] = from[from_begin + piece * from_stride + i];
    }
  }
  return to;
}

// Of all unit sizes and alignments, and of counts that select copy engines or a kernel.
constexpr std::array<StridedCopy, 8> kCopies{{
    {.bytes = 1000, .offset_bytes = 64},
    {.bytes = 16, .count = 40, .caller_stride = 32, .rank_stride = 48, .offset_bytes = 16},
    {.bytes = 8, .count = 9, .caller_stride = 8, .rank_stride = 24, .offset_bytes = 8},
    {.bytes = 12, .count = 5, .caller_stride = 20, .rank_stride = 12, .offset_bytes = 4},
    {.bytes = 6, .count = 30, .caller_stride = 6, .rank_stride = 10, .offset_bytes = 2},
    {.bytes = 3, .count = 21, .caller_stride = 5, .rank_stride = 4, .offset_bytes = 1},
    {.bytes = 100, .count = 2, .caller_stride = 300, .rank_stride = 101, .offset_bytes = 0},
    {.bytes = 4, .count = 0, .caller_stride = 4, .rank_stride = 4, .offset_bytes = 0},
}};

// Every rank puts pieces to the next rank and gets pieces from it.
std::string check_pieces(const Handle& handle, const Handle& other, std::byte* caller, Group& group,
                         std::optional<StreamId> stream) {
  const auto finish = [&] {
    if (stream) group.finish(*stream);
    group.barrier(0, kTestTimeout);
  };
  std::string wrong;
  for (const StridedCopy& copy : kCopies) {
    write_own(handle, Bytes(kCopyBytes, kUntouched));
    write_own(other, pattern(handle.rank()));
    group.barrier(0, kTestTimeout);
    const auto begin = static_cast<size_t>(copy.offset_bytes);
    handle.put_strided(next_rank(handle), caller + 32, copy, stream);
    finish();
    const Bytes put = with_pieces(Bytes(kCopyBytes, kUntouched), begin,
                                  pattern(previous_rank(handle)), 32, copy, true);
    if (read_own(handle) != put) wrong += text("put of ", copy.count, " x ", copy.bytes, "; ");

    write_own(handle, pattern(handle.rank()));
    write_own(other, Bytes(kCopyBytes, kUntouched));
    group.barrier(0, kTestTimeout);
    handle.get_strided(next_rank(handle), caller + 32, copy, stream);
    finish();
    const Bytes got = with_pieces(Bytes(kCopyBytes, kUntouched), 32, pattern(next_rank(handle)),
                                  begin, copy, false);
    if (read_own(other) != got) wrong += text("get of ", copy.count, " x ", copy.bytes, "; ");
    group.barrier(0, kTestTimeout);
  }
  return wrong;
}

std::string check_pieces_on_device(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  std::string wrong;
  for (const std::optional<StreamId>& each : {std::optional<StreamId>(), std::optional(stream)}) {
    wrong += check_pieces(own.handle, own.scratch_handle, own.scratch.data(), own.group, each);
  }
  throw_if_error(own.device().destroy_stream(stream));
  return wrong;
}

// The data has arrived when the receiver has waited for the signal.
std::string check_put_with_signal(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  const Handle& handle = own.handle;
  const StridedCopy copy{
      .bytes = 16, .count = 20, .caller_stride = 16, .rank_stride = 32, .offset_bytes = 64};
  std::string wrong;
  for (int round = 0; round < 4; ++round) {
    write_own(handle, Bytes(kCopyBytes, kUntouched));
    write_own(own.scratch_handle, pattern(handle.rank() + round));
    own.group.barrier(0, kTestTimeout);
    const bool has_stream = round % 2 == 0;
    const std::optional<StreamId> in = has_stream ? std::optional(stream) : std::nullopt;
    handle.put_with_signal(next_rank(handle), own.scratch.data(), copy, 3, kTestTimeout, in);
    handle.wait_signal(previous_rank(handle), 3, kTestTimeout, in);
    if (has_stream) own.group.finish(stream);
    const Bytes expected = with_pieces(Bytes(kCopyBytes, kUntouched), 64,
                                       pattern(previous_rank(handle) + round), 0, copy, true);
    if (read_own(handle) != expected) wrong += text("round ", round, ": wrong data; ");
    own.group.barrier(0, kTestTimeout);
  }
  throw_if_error(own.device().destroy_stream(stream));
  return wrong;
}

// A copy in one stream waits for the host. A signal in another stream follows a fence, so it is
// sent after the copy.
std::string check_fence(DeviceRank& own) {
  Device& device = own.device();
  const Handle& handle = own.handle;
  const StreamId copying = *device.create_stream();
  const StreamId signalling = *device.create_stream();
  write_own(handle, Bytes(kCopyBytes, kUntouched));
  write_own(own.scratch_handle, pattern(handle.rank()));
  own.group.barrier(0, kTestTimeout);
  std::atomic<bool> may_copy{false};
  throw_if_error(device.call_host(copying, [&] {
    while (!may_copy.load()) std::this_thread::yield();
  }));
  const std::span<const std::byte> all(own.scratch.data(), kCopyBytes);
  handle.put(next_rank(handle), all, 0, copying);
  handle.fence(signalling);
  handle.put_signal(next_rank(handle), 3, kTestTimeout, signalling);
  std::string wrong;
  // Without the fence, the signal would be sent during one of these turns.
  for (int turn = 0; turn < 5000 && wrong.empty(); ++turn) {
    std::this_thread::yield();
    if (*device.is_idle(signalling)) wrong += "the signal did not wait for the copy; ";
  }
  may_copy.store(true);
  handle.wait_signal(previous_rank(handle), 3, kTestTimeout);
  if (read_own(handle) != pattern(previous_rank(handle))) wrong += "wrong data; ";
  for (const StreamId each : {copying, signalling}) own.group.finish(each);
  handle.fence(signalling);  // no copy is in flight
  own.group.barrier(0, kTestTimeout);
  for (const StreamId each : {copying, signalling}) throw_if_error(device.destroy_stream(each));
  return wrong;
}

std::string check_copies_in_graph(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  const Handle& handle = own.handle;
  const StridedCopy copy{.bytes = 8, .count = 16, .caller_stride = 8, .rank_stride = 16};
  const GraphId graph = capture_graph(own.device(), stream, [&] {
    handle.put_with_signal(next_rank(handle), own.scratch.data(), copy, 3, kTestTimeout, stream);
    handle.wait_signal(previous_rank(handle), 3, kTestTimeout, stream);
    handle.fence(stream);
    handle.get(handle.rank(), {own.scratch.data() + 4096, 256}, 0, stream);
  });
  std::string wrong;
  for (int launch = 0; launch < 3; ++launch) {
    write_own(handle, Bytes(kCopyBytes, kUntouched));
    write_own(own.scratch_handle, pattern(handle.rank() + launch));
    own.group.barrier(0, kTestTimeout);
    throw_if_error(own.device().launch_graph(graph, stream));
    own.group.finish(stream);
    const Bytes expected = with_pieces(Bytes(kCopyBytes, kUntouched), 0,
                                       pattern(previous_rank(handle) + launch), 0, copy, true);
    const Bytes found = read_own(own.scratch_handle);
    if (!std::equal(expected.begin(), expected.begin() + 256, found.begin() + 4096)) {
      wrong += text("launch ", launch, ": wrong data; ");
    }
    own.group.barrier(0, kTestTimeout);
  }
  throw_if_error(own.device().destroy_graph(graph));
  throw_if_error(own.device().destroy_stream(stream));
  return wrong;
}

std::string check_invalid_copies(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  std::byte* const memory = own.scratch.data();
  const Handle& handle = own.handle;
  constexpr int64_t kMost = INT64_MAX;
  const std::function<void()> calls[] = {
      [&] { handle.put_strided(1, memory, {.bytes = 1}, stream); },
      [&] { handle.put_strided(0, memory, {.bytes = -1}, stream); },
      [&] { handle.put_strided(0, memory, {.bytes = 1, .count = -1}, stream); },
      [&] { handle.put_strided(0, memory, {.bytes = 1, .offset_bytes = -1}, stream); },
      [&] { handle.put_strided(0, nullptr, {.bytes = 1}, stream); },
      [&] { handle.put_strided(0, memory, {.bytes = 4, .count = 2, .rank_stride = 4}, stream); },
      [&] { handle.put_strided(0, memory, {.bytes = 4, .count = 2, .caller_stride = 4}, stream); },
      [&] {
        handle.put_strided(
            0, memory, {.bytes = 8, .count = kMost, .caller_stride = 8, .rank_stride = 8}, stream);
      },
      [&] { handle.put_strided(0, own.buffer.data() + 4, {.bytes = 8}, stream); },
      [&] { handle.get_strided(0, memory, {.bytes = int64_t{DeviceRank::kBytes} + 1}, stream); },
      [&] { handle.put_with_signal(0, memory, {.bytes = 8}, 32, kTestTimeout, stream); },
  };
  for (const auto& call : calls) {
    const std::string message = error_message(call);
    if (message.find("invalid argument") != 0) return text(&call - calls, ": ", message);
  }
  return {};
}

TEST(SymmetricCopies, CopiesPiecesOfHostMemory) {
  RankProcesses ranks(2, with_memory(kCopyBytes, [](SymmetricRank& own) -> std::string {
                        const SymmetricBuffer other = own.heap.allocate(kCopyBytes);
                        const Handle handle = own.group.rendezvous(other, kTestTimeout);
                        SymmetricBuffer caller = own.heap.allocate(16);
                        const StreamId stream{};
                        const std::string message = error_message([&] {
                          own.handle.put(0, {caller.data(), 16}, 0, stream);
                        });
                        if (message.find("no streams") == std::string::npos) return message;
                        return check_pieces(own.handle, handle,
                                            const_cast<std::byte*>(other.data()), own.group, {});
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

std::string check_all_copies(DeviceRank& own) {
  return check_pieces_on_device(own) + check_put_with_signal(own) + check_fence(own) +
         check_copies_in_graph(own);
}

TEST(SymmetricCopies, CopiesInStreamsOfSimulatedDevices) {
  RankProcesses ranks(3, on_simulated(check_all_copies));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricCopies, RejectsInvalidCopies) {
  RankProcesses ranks(1, on_simulated(check_invalid_copies));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

class SymmetricGpuCopies : public SymmetricGpuKernels, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpuCopies, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGpuCopies, CopiesInStreams) {
  RankProcesses ranks(GetParam(), with_kernels(check_all_copies));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Copies need no kernels.
TEST(SymmetricHip, CopiesPiecesInStreams) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<DeviceSet> devices = *try_open_hip({.library = ASHLAR_HIP_STANDIN});
    DeviceRank own(rank, devices->device(DeviceIndex(0)), SymmetricRank::group_options(rank));
    const StreamId stream = *own.device().create_stream();
    write_own(own.scratch_handle, pattern(0));
    const StridedCopy& copy = kCopies[1];
    own.handle.put_strided(0, own.scratch.data(), copy, stream);
    own.group.finish(stream);
    const std::vector<std::byte> found = DeviceRank::read_of<std::byte>(own.handle, 0, 64);
    own.group.leave(kTestTimeout);
    return found[16] == pattern(0)[0] && found[17] == pattern(0)[1] ? "" : "wrong data";
  });
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
