// SPDX-License-Identifier: Apache-2.0
//
// Computes sizes and addresses, checks arguments, and describes pads for timeout messages.
#include "symm/signals/signal_pad.h"

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

// Limits of a description: the number of channels, and of values in each list.
constexpr int kMaxDescribedChannels = 16;
constexpr int kMaxListedValues = 16;

Status check_shape(int world_size, int channel_count) {
  if (world_size < 1 || world_size > kMaxRanks) {
    return Status::invalid_argument(
        text("signal pad for ", world_size, " ranks: expected 1 to ", kMaxRanks, " ranks"));
  }
  if (channel_count < 1 || channel_count > kMaxChannels) {
    return Status::invalid_argument(text("signal pad of ", channel_count,
                                         " channels: expected 1 to ", kMaxChannels, " channels"));
  }
  return {};
}

Status check_bases(int rank, const std::vector<std::byte*>& bases, size_t alignment) {
  const int world_size = static_cast<int>(bases.size());
  if (rank < 0 || rank >= world_size) {
    return Status::invalid_argument(
        text("rank ", rank, " of ", world_size, ": expected 0 to ", world_size - 1));
  }
  if (bases[static_cast<size_t>(rank)] == nullptr) {
    return Status::invalid_argument(text("rank ", rank, " has no signal pad"));
  }
  for (int owner = 0; owner < world_size; ++owner) {
    const auto address = reinterpret_cast<uintptr_t>(bases[static_cast<size_t>(owner)]);
    if (!is_aligned(address, alignment)) {
      return Status::invalid_argument(
          text("the pad of rank ", owner, " is not aligned to ", alignment, " bytes"));
    }
  }
  return {};
}

// Returns the nonzero values as "name 0:1 3:7", up to kMaxListedValues of them, or an empty string
// if all are zero.
template <typename Value>
std::string list_values(const char* name, int world_size, Value value) {
  std::string out;
  int more_count = 0;
  int count = 0;
  for (int source = 0; source < world_size; ++source) {
    const uint64_t found = value(source);
    if (found == 0) continue;
    if (count++ < kMaxListedValues) {
      out += text(out.empty() ? name : "", " ", source, ":", found);
    } else {
      ++more_count;
    }
  }
  if (more_count > 0) out += text(" and ", more_count, " more");
  return out;
}

// Returns one line per channel whose description is not empty. Channel `first` comes first and is
// always listed. Lists at most kMaxDescribedChannels channels.
template <typename Describe>
std::string list_channels(int channel_count, int first, Describe describe) {
  const auto line = [](int channel, const std::string& words) {
    return text("\n  channel ", channel, ": ", words.empty() ? "all zero" : words);
  };
  std::string out = line(first, describe(first));
  int count = 1;
  for (int channel = 0; channel < channel_count; ++channel) {
    if (channel == first) continue;
    const std::string words = describe(channel);
    if (words.empty()) continue;
    if (count++ == kMaxDescribedChannels) return out + "\n  ...";
    out += line(channel, words);
  }
  return out;
}

std::string join(std::string left, const std::string& right) {
  if (!left.empty() && !right.empty()) left += ", ";
  return left + right;
}

}  // namespace

Result<size_t> pad_bytes(int world_size, int channel_count) {
  if (Status shape = check_shape(world_size, channel_count); !shape.ok()) return shape;
  return sizeof(PadLine) * static_cast<size_t>(world_size) * static_cast<size_t>(channel_count);
}

// The spin policy counts only the ranks whose pads are mapped: they are on this machine and compete
// for its cores.
SignalSlots::SignalSlots(int rank, int channel_count, std::vector<std::byte*> bases,
                         RemotePads* remote)
    : rank_(rank),
      world_size_(static_cast<int>(bases.size())),
      channel_count_(channel_count),
      sleeper_channel_count_(channel_count),
      spin_policy_(SpinPolicy::of(static_cast<int>(
          std::count_if(bases.begin(), bases.end(), [](auto* each) { return each != nullptr; })))),
      remote_(remote),
      first_unreachable_(std::find(bases.begin(), bases.end(), nullptr) - bases.begin()),
      bases_(std::move(bases)),
      sleeper_bases_(bases_) {}

Status SignalSlots::check_channel(int channel) const {
  if (channel >= 0 && channel < channel_count_) return {};
  return Status::invalid_argument(text("channel ", channel, " does not exist: with ", world_size_,
                                       " ranks this pad has channels 0 to ", channel_count_ - 1,
                                       "; a larger pad has more"));
}

Status SignalSlots::check_reachable(int rank) const {
  if (bases_[static_cast<size_t>(rank)] != nullptr) return {};
  return Status::unsupported(text("rank ", rank_, " cannot reach the pad of rank ", rank,
                                  " by pointer: it is on another machine"));
}

Status SignalSlots::check_all_reachable() const {
  return first_unreachable_ == world_size_ ? Status()
                                           : check_reachable(static_cast<int>(first_unreachable_));
}

WaitWord<uint32_t> SignalSlots::slot(int owner, int channel, int source) const {
  std::byte* base = bases_[static_cast<size_t>(owner)];
  std::byte* sleepers = sleeper_bases_[static_cast<size_t>(owner)] +
                        index(channel % sleeper_channel_count_, source) * sizeof(PadLine) +
                        sleepers_offset_;
  return {.value = reinterpret_cast<uint32_t*>(base + index(channel, source) * stride_bytes_),
          .sleepers = reinterpret_cast<uint32_t*>(sleepers)};
}

Result<SignalPads> SignalPads::make(int rank, int channel_count, std::vector<std::byte*> bases,
                                    RemotePads* remote) {
  const int world_size = static_cast<int>(std::min<size_t>(bases.size(), kMaxRanks + 1));
  if (Status shape = check_shape(world_size, channel_count); !shape.ok()) return shape;
  if (Status wrong = check_bases(rank, bases, sizeof(PadLine)); !wrong.ok()) return wrong;
  return SignalPads(SignalSlots(rank, channel_count, std::move(bases), remote));
}

Result<SignalSlots> SignalPads::user_slots(size_t user_pad_bytes,
                                           std::vector<std::byte*> bases) const {
  if (bases.size() != static_cast<size_t>(world_size())) {
    return Status::invalid_argument(
        text(bases.size(), " user pads in a group of ", world_size(), ": expected one per rank"));
  }
  if (Status wrong = check_bases(rank(), bases, sizeof(uint32_t)); !wrong.ok()) return wrong;
  const size_t channel_bytes = sizeof(uint32_t) * bases.size();
  if (user_pad_bytes < channel_bytes) {
    return Status::invalid_argument(text("a pad of ", user_pad_bytes,
                                         " bytes is too small for one channel: ", world_size(),
                                         " ranks need ", channel_bytes, " bytes"));
  }
  const size_t channel_count = std::min<size_t>(user_pad_bytes / channel_bytes, kMaxChannels);
  SignalSlots slots(rank(), static_cast<int>(channel_count), std::move(bases), nullptr);
  slots.stride_bytes_ = sizeof(uint32_t);
  slots.sleepers_offset_ = offsetof(PadLine, user_sleepers);
  slots.sleeper_channel_count_ = this->channel_count();
  slots.sleeper_bases_ = slots_.bases_;
  slots.spin_policy_ = spin_policy();
  return slots;
}

PadLine& SignalPads::line(int owner, int channel, int source) const {
  std::byte* base = slots_.bases_[static_cast<size_t>(owner)];
  return reinterpret_cast<PadLine*>(base)[slots_.index(channel, source)];
}

WaitWord<uint64_t> SignalPads::counter(int owner, int channel, int source) const {
  PadLine& words = line(owner, channel, source);
  return {.value = &words.counter, .sleepers = &words.counter_sleepers};
}

WaitWord<uint64_t> SignalPads::barrier(int owner, int channel, int source) const {
  PadLine& words = line(owner, channel, source);
  return {.value = &words.barrier, .sleepers = &words.barrier_sleepers};
}

std::string describe_pad(const SignalPads& pads, int channel) {
  const auto load = [](const auto* word) {
    return SharedWords::load(word, std::memory_order_relaxed);
  };
  const int me = pads.rank();
  const auto describe = [&](int c) {
    const std::string signals =
        list_values("full from", pads.world_size(),
                    [&](int source) -> uint64_t { return load(&pads.line(me, c, source).signal); });
    const std::string counters = list_values("counters", pads.world_size(), [&](int source) {
      return load(&pads.line(me, c, source).counter);
    });
    const std::string barriers = list_values("barriers", pads.world_size(), [&](int source) {
      return load(&pads.line(me, c, source).barrier);
    });
    return join(join(signals, counters), barriers);
  };
  return text("the pad of rank ", me, " (source:value):") +
         list_channels(pads.channel_count(), channel, describe);
}

std::string describe_slots(const SignalSlots& slots, int channel) {
  const int me = slots.rank();
  const auto describe = [&](int c) {
    return list_values("full from", slots.world_size(), [&](int source) -> uint64_t {
      return SharedWords::load(slots.slot(me, c, source).value, std::memory_order_relaxed);
    });
  };
  return text("the pad of rank ", me, " (source:value):") +
         list_channels(slots.channel_count(), channel, describe);
}

std::string seconds_text(std::chrono::nanoseconds duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  const std::string fraction = std::to_string(ms % 1000);
  return text(ms / 1000, ".", std::string(3 - fraction.size(), '0'), fraction, " s");
}

}  // namespace ashlar::symm
