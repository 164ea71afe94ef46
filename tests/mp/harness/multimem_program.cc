// SPDX-License-Identifier: Apache-2.0
//
// Implements the checks, which run on simulated devices and on devices of the stand-in driver.
#include "mp/harness/multimem_program.h"

#include <algorithm>
#include <limits>

#include "mp/harness/graph_program.h"

namespace ashlar::symm {
namespace {

constexpr uint8_t kMultimemGuardByte = 0x5A;
constexpr size_t kCount = 1003;  // not a multiple of the width of a multimem instruction

void guard_all(const DeviceRank& own) {
  const std::vector<uint8_t> guards(DeviceRank::kBytes, kMultimemGuardByte);
  own.write(guards);
  own.scratch_handle.put(own.handle.rank(), std::as_bytes(std::span(guards)));
}

bool is_guarded(const std::vector<uint8_t>& bytes) {
  return std::ranges::all_of(bytes, [](uint8_t each) { return each == kMultimemGuardByte; });
}

// Returns the byte that `rank` puts at `place`.
uint8_t put_byte(int rank, size_t place) {
  return static_cast<uint8_t>(place * 7 + static_cast<size_t>(rank) * 31 + 1);
}

}  // namespace

std::string check_multimem_to_out(DeviceRank& own, const MultimemCase& test_case) {
  const int rank = own.handle.rank();
  const int count = own.handle.world_size();
  guard_all(own);
  std::vector<int32_t> values(kCount);
  std::vector<int32_t> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<int32_t>(i % 97) + rank;
    const int sum = count * static_cast<int>(i % 97) + count * (count - 1) / 2;
    expected[i] = test_case.what.op == ReduceOp::kSum ? sum : static_cast<int32_t>(i % 97);
  }
  own.write(values, test_case.offset);
  own.group.barrier(0, kTestTimeout);
  CollectiveOptions options;
  options.offset_bytes = test_case.offset;
  options.out = own.scratch.data() + 64 + test_case.shift;
  options.timeout = kTestTimeout;
  options.stream = test_case.stream;
  if (test_case.root) own.handle.multimem_reduce(kCount, *test_case.root, test_case.what, options);
  if (!test_case.root) own.handle.multimem_all_reduce(kCount, test_case.what, options);
  if (test_case.stream) own.group.finish(*test_case.stream);
  const auto scratch = DeviceRank::read_of<uint8_t>(own.scratch_handle, rank, 64 + test_case.shift);
  const auto at = static_cast<int64_t>(64 + test_case.shift);
  const bool is_receiver = !test_case.root || *test_case.root == rank;
  const auto found = DeviceRank::read_of<int32_t>(own.scratch_handle, rank, kCount, at);
  const auto end = at + static_cast<int64_t>(4 * kCount);
  const auto behind = DeviceRank::read_of<uint8_t>(
      own.scratch_handle, rank, DeviceRank::kBytes - static_cast<size_t>(end), end);
  std::string wrong;
  if (is_receiver && found != expected) wrong += "wrong sum; ";
  if (!is_receiver && found != std::vector<int32_t>(kCount, 0x5A5A5A5A))
    wrong += "wrote out of a rank that is not the root; ";
  if (!is_guarded(scratch) || !is_guarded(behind)) wrong += "wrote outside out; ";
  if (own.read<int32_t>(kCount, test_case.offset) != values) wrong += "the input was changed; ";
  own.group.barrier(0, kTestTimeout);
  return wrong.empty() ? wrong
                       : text("at ", test_case.offset, " to ", test_case.shift, ": ", wrong);
}

std::string check_multimem_put(DeviceRank& own, int64_t offset, size_t bytes,
                               std::optional<StreamId> stream) {
  const int rank = own.handle.rank();
  std::string wrong;
  for (int from = 0; from < own.handle.world_size(); ++from) {
    guard_all(own);
    own.group.barrier(0, kTestTimeout);
    if (from == rank) {
      std::vector<uint8_t> put(bytes);
      for (size_t i = 0; i < bytes; ++i) put[i] = put_byte(rank, i);
      own.scratch_handle.put(rank, std::as_bytes(std::span(put)));
      own.handle.multimem_put({own.scratch.data(), bytes}, offset, stream);
      if (stream) own.group.finish(*stream);
    }
    own.group.barrier(0, kTestTimeout);
    const std::vector<uint8_t> found = own.read<uint8_t>(bytes, offset);
    for (size_t i = 0; i < bytes; ++i) {
      if (found[i] != put_byte(from, i)) return text("put of ", bytes, " at ", offset, "; ");
    }
    if (!is_guarded(own.read<uint8_t>(static_cast<size_t>(offset))))
      wrong += "wrote before the range; ";
    if (!is_guarded(own.read<uint8_t>(64, offset + static_cast<int64_t>(bytes)))) {
      wrong += "wrote after the range; ";
    }
    own.group.barrier(0, kTestTimeout);
  }
  return wrong;
}

namespace {

// Launches a graph that contains a put twice. Between the launches, the bytes in the put's source
// change.
std::string check_captured_put(DeviceRank& own, StreamId stream) {
  constexpr size_t kBytes = 1001;
  const bool is_sender = own.handle.rank() == 0;
  GraphId graph;
  if (is_sender) {
    graph = capture_graph(own.device(), stream, [&] {
      own.handle.multimem_put({own.scratch.data(), kBytes}, 256, stream);
    });
  }
  std::string wrong;
  for (const uint8_t value : {uint8_t{1}, uint8_t{2}}) {
    guard_all(own);
    own.group.barrier(0, kTestTimeout);
    const std::vector<uint8_t> put(kBytes, value);
    if (is_sender) {
      own.scratch_handle.put(0, std::as_bytes(std::span(put)));
      throw_if_error(own.device().launch_graph(graph, stream));
      own.group.finish(stream);
    }
    own.group.barrier(0, kTestTimeout);
    if (own.read<uint8_t>(kBytes, 256) != put) wrong += text("captured put ", int{value}, "; ");
    own.group.barrier(0, kTestTimeout);
  }
  if (is_sender) throw_if_error(own.device().destroy_graph(graph));
  return wrong;
}

// Puts a range of the rank's own buffer onto itself, through a handle with an offset.
std::string check_put_onto_source(DeviceRank& own) {
  const Handle inside = own.group.rendezvous(own.buffer.data() + 512, kTestTimeout);
  guard_all(own);
  own.group.barrier(0, kTestTimeout);
  const std::vector<int> mine(100, 40 + own.handle.rank());
  if (own.handle.rank() == 0) {
    own.write(mine, 512 + 32);
    inside.multimem_put({own.buffer.data() + 512 + 32, 400}, 32);
    inside.multimem_put({}, 0);
  }
  own.group.barrier(0, kTestTimeout);
  const bool is_right = own.read<int>(100, 512 + 32) == std::vector<int>(100, 40) &&
                        is_guarded(own.read<uint8_t>(512 + 32));
  own.group.barrier(0, kTestTimeout);
  return is_right ? "" : "put onto the source; ";
}

}  // namespace

std::string run_multimem_program(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  const Reduction least{ElementType::kI32, ReduceOp::kMin};
  std::string wrong;
  for (const std::optional<StreamId>& each : {std::optional<StreamId>(), std::optional(stream)}) {
    for (const int64_t offset : {0, 48, 4}) {
      for (const size_t shift : {size_t{0}, size_t{4}}) {
        wrong += check_multimem_to_out(own, {{}, offset, shift, each});
        wrong += check_multimem_to_out(own, {own.handle.world_size() - 1, offset, shift, each});
      }
    }
    wrong += check_multimem_to_out(own, {0, 0, 0, each, least});
    wrong += check_multimem_to_out(own, {{}, 0, 0, each, least});
    wrong += check_multimem_put(own, 0, 4096, each) + check_multimem_put(own, 256, 1001, each) +
             check_multimem_put(own, 3, 77, each);
  }
  wrong += check_captured_put(own, stream);
  wrong += check_put_onto_source(own);
  if (!own.device().destroy_stream(stream).ok()) wrong += "cannot destroy the stream; ";
  return wrong;
}

std::string check_multimem_invalid_arguments(DeviceRank& own) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const StreamId stream = *own.device().create_stream();
  std::vector<std::byte> host(64);
  const std::span<const std::byte> device(own.scratch.data(), 64);
  const std::span<const std::byte> all(own.scratch.data(), DeviceRank::kBytes);
  const auto at = [&](int64_t offset, void* out) -> CollectiveOptions {
    return {.offset_bytes = offset, .out = out, .timeout = kTestTimeout, .stream = stream};
  };
  std::byte* const out = own.scratch.data();
  const Handle& handle = own.handle;
  const std::function<void()> invalid_calls[] = {
      [&] { handle.multimem_reduce(1, 2, {}, at(0, out)); },
      [&] { handle.multimem_reduce(1, -1, {}, at(0, out)); },
      [&] { handle.multimem_reduce(1, 1, {}, at(0, nullptr)); },
      [&] { handle.multimem_reduce(1, 1, {}, at(0, out + 1)); },
      [&] { handle.multimem_reduce(1, 1, {}, at(0, own.buffer.data())); },
      [&] { handle.multimem_reduce(1, 1, {}, at(0, host.data())); },
      [&] { handle.multimem_reduce(1, 1, {}, at(2, out)); },
      [&] { handle.multimem_reduce(1, 1, {}, at(-4, out)); },
      [&] { handle.multimem_reduce(1, 1, {}, at(kMax - 3, out)); },
      [&] { handle.multimem_reduce(kMax, 1, {}, at(0, out)); },
      [&] { handle.multimem_reduce(-1, 1, {}, at(0, out)); },
      [&] {
        handle.multimem_reduce(1, 1, {ElementType::kF32, ReduceOp::kOr}, at(0, out));
      },
      [&] { handle.multimem_all_reduce(1, {}, at(0, out + 2)); },
      [&] { handle.multimem_all_reduce(1, {}, at(0, own.buffer.data())); },
      [&] { handle.multimem_all_reduce(1, {}, at(0, host.data())); },
      [&] { handle.multimem_all_reduce(1, {}, at(-4, out)); },
      [&] { handle.multimem_put(device, -1, stream); },
      [&] { handle.multimem_put(device, kMax, stream); },
      [&] { handle.multimem_put(device, DeviceRank::kBytes - 63, stream); },
      [&] { handle.multimem_put(all, 1, stream); },
      [&] {
        handle.multimem_put({out, SIZE_MAX}, 0, stream);
      },
      [&] { handle.multimem_put(host, 0, stream); },
      [&] {
        handle.multimem_put({static_cast<std::byte*>(nullptr), 4}, 0, stream);
      },
      [&] {
        handle.multimem_put({own.buffer.data() + 8, 64}, 0, stream);
      },
  };
  std::string wrong;
  for (size_t i = 0; i < std::size(invalid_calls); ++i) {
    if (!throws_invalid_argument(invalid_calls[i]))
      wrong += text("invalid call ", i, ": ", error_message(invalid_calls[i]), "; ");
  }
  return wrong;
}

}  // namespace ashlar::symm
