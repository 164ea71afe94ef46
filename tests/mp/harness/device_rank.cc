// SPDX-License-Identifier: Apache-2.0
//
// Implements the ranks, which are processes or threads, and their test program.
#include "mp/harness/device_rank.h"

#include <algorithm>
#include <array>
#include <limits>

namespace ashlar::symm {
namespace {

constexpr int kGuardWord = 0x5A5A5A5A;
constexpr size_t kWords = 100;
constexpr int64_t kBegin = 256;  // offset of the words that collectives work on

// Fills both buffers with guard words, except for the words that the collective works on.
void prepare(const DeviceRank& own, size_t words, int value) {
  own.write(std::vector<int>(DeviceRank::kBytes / 4, kGuardWord));
  own.write(std::vector<int>(words, value), kBegin);
  const std::vector<int> guards(DeviceRank::kBytes / 4, kGuardWord);
  own.scratch_handle.put(own.handle.rank(), std::as_bytes(std::span(guards)));
  own.handle.barrier(0, kTestTimeout);
}

bool is_all(const std::vector<int>& words, int value) {
  return std::ranges::all_of(words, [value](int each) { return each == value; });
}

// Returns an error if the collective wrote outside of `words` words of the buffer or outside of the
// first `scratch_words` words of the scratch buffer.
std::string check_around(const DeviceRank& own, const char* name, size_t words,
                         size_t scratch_words = 0) {
  own.handle.barrier(0, kTestTimeout);
  const size_t end = static_cast<size_t>(kBegin) + 4 * words;
  if (!is_all(own.read<int>(kBegin / 4), kGuardWord))
    return text(name, ": wrote before its range; ");
  const size_t left = (DeviceRank::kBytes - end) / 4;
  if (!is_all(own.read<int>(left, static_cast<int64_t>(end)), kGuardWord)) {
    return text(name, ": wrote after its range; ");
  }
  const size_t scratch_left = DeviceRank::kBytes / 4 - scratch_words;
  if (!is_all(DeviceRank::read_of<int>(own.scratch_handle, own.handle.rank(), scratch_left,
                                       static_cast<int64_t>(4 * scratch_words)),
              kGuardWord)) {
    return text(name, ": wrote outside of its range of the scratch buffer; ");
  }
  return {};
}

struct Program {
  DeviceRank& own;
  std::optional<StreamId> stream;

  CollectiveOptions options(bool to_scratch) const {
    CollectiveOptions made;
    made.offset_bytes = kBegin;
    made.out = to_scratch ? own.scratch.data() : nullptr;
    made.timeout = kTestTimeout;
    made.stream = stream;
    return made;
  }
  void finish() const {
    if (stream) own.group.finish(*stream);
  }
  std::vector<int> result(bool from_scratch, size_t words) const {
    finish();
    return from_scratch ? DeviceRank::read_of<int>(own.scratch_handle, own.handle.rank(), words)
                        : own.read<int>(words, kBegin);
  }

  std::string check_reductions() const {
    const Handle& handle = own.handle;
    const int count = handle.world_size();
    const int sum = count * (count + 1) / 2;
    const auto ranks = static_cast<size_t>(count);
    std::string wrong;
    for (const bool out : {false, true}) {
      prepare(own, kWords, handle.rank() + 1);
      handle.one_shot_all_reduce(kWords, kSumOfInt, options(out));
      if (!is_all(result(out, kWords), sum)) wrong += "one-shot; ";
      wrong += check_around(own, "one-shot", kWords, out ? kWords : 0);
      prepare(own, kWords, handle.rank() + 1);
      handle.two_shot_all_reduce(kWords, kSumOfInt, options(out));
      if (!is_all(result(out, kWords), sum)) wrong += "two-shot; ";
      wrong += check_around(own, "two-shot", kWords, out ? kWords : 0);
    }
    prepare(own, kWords, handle.rank() + 1);
    handle.reduce(kWords, count - 1, kSumOfInt, options(true));
    if (!is_all(result(true, kWords), handle.rank() == count - 1 ? sum : kGuardWord)) {
      wrong += "reduce; ";
    }
    if (!is_all(own.read<int>(kWords, kBegin), handle.rank() + 1)) wrong += "reduced in place; ";
    wrong += check_around(own, "reduce", kWords, kWords);
    prepare(own, 5 * ranks, handle.rank() + 1);
    handle.reduce_scatter(5, kSumOfInt, options(true));
    if (!is_all(result(true, 5), sum)) wrong += "reduce-scatter; ";
    return wrong + check_around(own, "reduce-scatter", 5 * ranks, 5);
  }

  std::string check_data_movement() const {
    const Handle& handle = own.handle;
    const auto ranks = static_cast<size_t>(handle.world_size());
    std::vector<int> counting;
    for (int rank = 0; rank < handle.world_size(); ++rank) counting.push_back(rank + 1);
    std::string wrong;
    prepare(own, ranks, handle.rank() + 1);
    const std::byte* share = own.buffer.data() + kBegin + 4 * handle.rank();
    handle.all_gather(share, 4, options(false));
    if (result(false, ranks) != counting) wrong += "all-gather; ";
    wrong += check_around(own, "all-gather", ranks);
    prepare(own, 7, handle.rank() + 1);
    handle.broadcast(28, handle.world_size() - 1, options(true));
    if (!is_all(result(true, 7), handle.world_size())) wrong += "broadcast; ";
    wrong += check_around(own, "broadcast", 7, 7);
    prepare(own, ranks, handle.rank() + 1);
    handle.all_to_all(4, options(true));
    if (result(true, ranks) != counting) wrong += "all-to-all; ";
    wrong += check_around(own, "all-to-all", ranks, ranks);
    prepare(own, ranks, handle.rank() + 1);
    std::vector<int64_t> splits(ranks, 1);
    std::vector<int64_t> out_splits(ranks);
    std::vector<int64_t> out_offsets(ranks);
    RowExchange rows;
    rows.row_bytes = 4;
    rows.splits = splits;
    rows.out_bytes = static_cast<int64_t>(4 * ranks);
    rows.out_splits = out_splits;
    rows.out_offsets = out_offsets;
    handle.all_to_all_v(rows, options(true));
    if (result(true, ranks) != counting || out_splits != splits) wrong += "all-to-all-v; ";
    return wrong + check_around(own, "all-to-all-v", ranks, ranks);
  }

  // Stores to the next rank's buffer and pad. The neighbouring pad word must not change.
  std::string check_stores() const {
    const Handle& handle = own.handle;
    const int next = (handle.rank() + 1) % handle.world_size();
    const int before = (handle.rank() + handle.world_size() - 1) % handle.world_size();
    const auto in_pad = static_cast<int64_t>(handle.signal_pad_bytes() / 4) - 1;
    std::string wrong;
    prepare(own, kWords, -1);
    const auto mark = static_cast<uint32_t>(500 + handle.rank());
    handle.store_words(next, {.offset = kBegin / 4, .count = kWords, .value = mark}, stream);
    handle.store_words(
        next, {.memory = WordFill::Memory::kSignalPad, .offset = in_pad, .value = mark}, stream);
    finish();
    handle.barrier(0, kTestTimeout);
    if (!is_all(own.read<int>(kWords, kBegin), 500 + before)) wrong += "wrong words; ";
    std::array<int, 2> pad{};
    const std::byte* at = handle.signal_pad_ptrs()[static_cast<size_t>(handle.rank())];
    copy_here(pad.data(), at + 4 * (in_pad - 1), sizeof(pad));
    if (pad != std::array{0, 500 + before}) wrong += "wrong pad; ";
    return wrong + check_around(own, "stores", kWords);
  }

  // Reads the tables from device memory. Copies of a handle share one table.
  std::string check_tables() const {
    const Handle& handle = own.handle;
    std::vector<std::byte*> found(static_cast<size_t>(handle.world_size()));
    std::byte* const* table = handle.buffer_ptrs_on_device();
    copy_here(found.data(), reinterpret_cast<const std::byte*>(table), 8 * found.size());
    std::string wrong;
    if (found != handle.buffer_ptrs()) wrong += "wrong buffer addresses; ";
    table = handle.signal_pad_ptrs_on_device();
    copy_here(found.data(), reinterpret_cast<const std::byte*>(table), 8 * found.size());
    if (found != handle.signal_pad_ptrs()) wrong += "wrong pad addresses; ";
    const Handle copy = handle;
    if (copy.signal_pad_ptrs_on_device() != table) wrong += "copies have different tables; ";
    if (own.scratch_handle.buffer_ptrs_on_device() == handle.buffer_ptrs_on_device()) {
      wrong += "two handles share a table; ";
    }
    return wrong;
  }

  void copy_here(void* to, const std::byte* from, size_t bytes) const {
    const DeviceAddress at(reinterpret_cast<uint64_t>(from));
    const StreamId temporary = *own.device().create_stream();
    Status done = own.device().copy_to_host(to, at, bytes, temporary);
    if (done.ok()) done = own.device().synchronize_stream(temporary);
    if (!done.ok() || !own.device().destroy_stream(temporary).ok()) std::memset(to, 0xEE, bytes);
  }

  std::string check_signals() const {
    const Handle& handle = own.handle;
    const int next = (handle.rank() + 1) % handle.world_size();
    const int before = (handle.rank() + handle.world_size() - 1) % handle.world_size();
    std::string wrong;
    const uint64_t counted = handle.counter_value(before, 2);
    handle.barrier(0, kTestTimeout);  // all ranks read the counter before any rank changes it
    for (int round = 0; round < 5; ++round) {
      const int mark = 1000 * round + handle.rank();
      handle.put(next, std::as_bytes(std::span(&mark, 1)));
      handle.put_signal(next, 1, kTestTimeout, stream);
      handle.wait_signal(before, 1, kTestTimeout, stream);
      handle.add_signal(next, 3, 2, stream);
      handle.wait_for_value(before, counted + 3 * static_cast<uint64_t>(round + 1), 2, kTestTimeout,
                            stream);
      finish();
      if (own.read<int>(1)[0] != 1000 * round + before) wrong += "signal arrived before its data; ";
      handle.barrier(3, kTestTimeout, stream);
      finish();
    }
    if (handle.counter_value(before, 2) != counted + 15) wrong += "wrong count; ";
    return wrong;
  }
};

}  // namespace

std::unique_ptr<sim::Machine> make_machine(int world_size) {
  sim::Options options;
  options.device_count = static_cast<size_t>(world_size);
  options.capacity_bytes = size_t{1} << 30;
  return *sim::Machine::try_create(options);
}

namespace {

HeapOptions heap_on(Device& device) {
  HeapOptions options = SymmetricRank::heap_options();
  options.device = &device;
  return options;
}

}  // namespace

DeviceRank::DeviceRank(const RankSpec& own, Device& on, const GroupOptions& options)
    : on_device(on),
      store(own.store),
      heap(heap_on(on)),
      group(Group::join(heap, own.store, options)),
      buffer(heap.allocate(kBytes)),
      handle(group.rendezvous(buffer, kTestTimeout)),
      scratch(heap.allocate(kBytes)),
      scratch_handle(group.rendezvous(scratch, kTestTimeout)) {}

namespace {

GroupOptions host_options(const DeviceRank& own) {
  GroupOptions options;
  options.rank = own.group.rank();
  options.world_size = own.group.world_size();
  options.name = "host";
  options.measure_thresholds = false;
  options.timeout = kTestTimeout;
  return options;
}

}  // namespace

HostReference::HostReference(const DeviceRank& own, size_t bytes)
    : heap(SymmetricRank::heap_options()),
      group(Group::join(heap, own.store, host_options(own))),
      buffer(heap.allocate(bytes)),
      handle(group.rendezvous(buffer, kTestTimeout)) {}

std::string run_device_program(DeviceRank& own) {
  std::string wrong;
  Result<StreamId> stream = own.device().create_stream();
  if (!stream.ok()) return "no stream";
  for (const std::optional<StreamId>& each : {std::optional<StreamId>(), std::optional(*stream)}) {
    const Program program{own, each};
    wrong += program.check_reductions() + program.check_data_movement() + program.check_signals();
    wrong += program.check_stores() + program.check_tables();
  }
  own.handle.barrier(0, kTestTimeout);
  if (!own.device().destroy_stream(*stream).ok()) wrong += "cannot destroy the stream; ";
  return wrong;
}

std::string check_stream_timeout(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  const int other = 1 - own.group.rank();
  std::string message;
  if (own.group.rank() == 0) {
    own.handle.wait_signal(1, 6, milliseconds(30), stream);
    // This operation is skipped, because the previous operation failed.
    own.handle.add_signal(1, 1, 7, stream);
    message = error_message([&] { own.group.finish(stream); });
    message += error_message([&] { own.group.finish(stream); });  // the error is reported only once
  }
  own.group.barrier(0, kTestTimeout);
  if (own.handle.counter_value(0, 7) != 0) return "ran after a timeout";
  own.group.barrier(0, kTestTimeout);
  own.handle.put_signal(other, 6, kTestTimeout, stream);
  own.handle.wait_signal(other, 6, kTestTimeout, stream);
  own.group.finish(stream);
  own.group.barrier(0, kTestTimeout);
  if (own.group.rank() == 1) return {};
  const bool is_right = message.starts_with("timeout: rank 0 waited ") &&
                        message.find("from rank 1 on channel 6") != std::string::npos &&
                        message.ends_with("nothing");
  return is_right ? "" : message;
}

std::string check_invalid_arguments(DeviceRank& own) {
  const StreamId stream = *own.device().create_stream();
  std::vector<int> host(10);
  CollectiveOptions options;
  options.timeout = kTestTimeout;
  options.stream = stream;
  options.out = host.data();
  const auto reduce = [&] { own.handle.all_reduce(10, {}, options); };
  const std::string message = error_message(reduce);
  if (message.find("out is not 40 bytes of memory that the device") == std::string::npos)
    return message;
  options.out = nullptr;
  options.offset_bytes = 2;
  if (error_message(reduce).find("not a multiple") == std::string::npos) return "offset";
  options.offset_bytes = 0;
  CollectiveOptions before = options;
  before.offset_bytes = -4;
  CollectiveOptions elsewhere = options;
  elsewhere.out = host.data();
  constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
  const std::function<void()> invalid_calls[] = {
      [&] { own.handle.put_signal(1); },
      [&] { own.handle.wait_signal(0, 32); },
      [&] { own.group.barrier(-1); },
      [&] { own.handle.all_reduce(1, {}, before); },
      [&] { own.handle.broadcast(4, 1, options); },
      [&] { own.handle.reduce(1, 1, {}, options); },
      [&] { own.handle.reduce(1, 0, {}, options); },
      [&] { own.handle.reduce(1, 0, {}, elsewhere); },
      [&] { own.handle.store_words(1, {}, stream); },
      [&] { own.handle.store_words(0, {.offset = -1}, stream); },
      [&] { own.handle.store_words(0, {.count = 0}, stream); },
      [&] { own.handle.store_words(0, {.offset = DeviceRank::kBytes / 4}, stream); },
      [&] { own.handle.store_words(0, {.count = kInt64Max / 2}, stream); },
      [&] {
        own.handle.store_words(0, {.memory = WordFill::Memory::kSignalPad, .offset = kInt64Max},
                               stream);
      },
      [&] { own.handle.all_reduce(1 << 20, {}, options); },
      [&] {
        own.handle.all_reduce(1, {ElementType::kF32, ReduceOp::kAnd}, options);
      },
  };
  for (const auto& operation : invalid_calls) {
    if (error_message(operation).find("invalid argument") != 0) return error_message(operation);
  }
  reduce();
  own.group.finish(stream);
  return {};
}

}  // namespace ashlar::symm
