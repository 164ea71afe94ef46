// SPDX-License-Identifier: Apache-2.0
//
// Draws the parts of a snapshot and writes them as a pickle.
#include "unit/files/random_recording.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "unit/files/compressed.h"
#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

using namespace pickle;

class RandomRecording {
 public:
  RandomRecording(uint64_t seed, size_t entry_count)
      : random_(seed),
        block_count_(1 + draw(entry_count)),
        address_shift_(9 + random_.below(32)),
        stream_count_(1 + draw(3000)),
        max_bytes_log2_(4 + random_.below(42)),
        entry_count_(entry_count) {}

  std::string pickle() {
    std::string traces;
    for (uint64_t device = 1 + random_.below(3); device > 0; --device) traces += trace();
    std::string all = "}(" + string("device_traces") + "](" + traces + "e";
    if (random_.below(2) == 0) all += string("segments") + segments();
    if (random_.below(2) == 0) all += string("external_annotations") + annotations();
    if (random_.below(2) == 0) {
      all += string("allocator_settings") + dict({{"PYTORCH_CUDA_ALLOC_CONF", string(settings())}});
    }
    return whole(all + "u");
  }

 private:
  // Small numbers are as probable as large ones.
  size_t draw(size_t end) {
    size_t bits = 0;
    while ((end >> bits) > 1) ++bits;
    return static_cast<size_t>(random_.below(1 + (end >> random_.below(bits + 1))));
  }
  template <size_t N>
  std::string_view any(const std::array<std::string_view, N>& choices) {
    return choices[random_.below(N)];
  }
  std::string address(uint64_t block) const {
    return large_number(uint64_t{0x7f0000000000} + ((block & 0xffff) << address_shift_));
  }
  std::string size() {
    return large_number(1 + random_.below(uint64_t{1} << random_.below(max_bytes_log2_)));
  }

  std::string frames() {
    static constexpr std::array<std::string_view, 8> kNames = {
        "forward",
        "backward",
        "step",
        "zero_grad",
        "train",
        "__init__",
        "_engine_run_backward",
        "torch::autograd::Engine::thread_main"};
    static constexpr std::array<std::string_view, 5> kFiles = {
        "/data/train.py", "/usr/lib/python3/site-packages/torch/nn/modules/module.py",
        "/usr/lib/python3/site-packages/torch/optim/adam.py", "??", "model.py"};
    std::string bytes;
    for (size_t depth = draw(100); depth > 0; --depth) {
      bytes += dict({{"name", string(any(kNames))},
                     {"filename", string(any(kFiles))},
                     {"line", number(static_cast<int32_t>(random_.below(50)))}});
    }
    return "](" + bytes + "e";
  }

  // Frames are written once and then referred to by their memo index.
  std::string shared_frames() {
    constexpr size_t kStacks = 12;
    const size_t chosen = random_.below(kStacks);
    const auto found = std::find(stacks_.begin(), stacks_.end(), chosen);
    if (found != stacks_.end()) return "j" + little_endian(static_cast<uint32_t>(chosen));
    stacks_.push_back(chosen);
    return frames() + "r" + little_endian(static_cast<uint32_t>(chosen));
  }

  std::string random_entry() {
    static constexpr std::array<std::string_view, 16> kActions = {
        "alloc",          "alloc",          "alloc",          "alloc", "free_requested",
        "free_completed", "free_completed", "free_completed", "free",  "segment_alloc",
        "segment_free",   "segment_map",    "segment_unmap",  "oom",   "snapshot",
        "free_requested"};
    const std::string_view action = any(kActions);
    std::string bytes = "}(" + string("action") + string(action);
    bytes += string("addr") + address(random_.below(block_count_));
    bytes += string("size") + size();
    bytes += string("stream") + number(static_cast<int32_t>(random_.below(stream_count_)));
    if (action == "oom") bytes += string("device_free") + size();
    if (random_.below(4) == 0) bytes += string("time_us") + number(++time_us_);
    if (random_.below(2) == 0) bytes += string("frames") + shared_frames();
    return bytes + "u";
  }

  // Entries, some of which are repeated in their order.
  std::string trace() {
    constexpr uint32_t kFirstMemo = 100;
    std::string entries;
    std::string references;
    const size_t round_entries = 1 + draw(entry_count_);
    for (size_t i = 0; i < round_entries; ++i) {
      entries += random_entry() + "r" + little_endian(kFirstMemo + memo_);
      references += "j" + little_endian(kFirstMemo + memo_++);
    }
    return "](" + entries + repeat(references, draw(20'000) / round_entries) + "e";
  }

  std::string segments() {
    static constexpr std::array<std::string_view, 3> kStates = {"active_allocated", "inactive",
                                                                "active_pending_free"};
    std::string all;
    const uint64_t bytes = uint64_t{1} << address_shift_;
    for (size_t i = draw(entry_count_); i > 0; --i) {
      const std::string block = dict({{"address", address(i)},
                                      {"size", large_number(bytes)},
                                      {"state", string(any(kStates))}});
      all += dict({{"address", address(i)},
                   {"total_size", large_number(bytes)},
                   {"device", number(static_cast<int32_t>(random_.below(3)))},
                   {"stream", number(static_cast<int32_t>(random_.below(stream_count_)))},
                   {"blocks", list({block})}});
    }
    return "](" + all + "e";
  }

  std::string annotations() {
    static constexpr std::array<std::string_view, 4> kNames = {
        "Optimizer.step#Adam.step", "step", "forward", "Optimizer.zero_grad#Adam.zero_grad"};
    static constexpr std::array<std::string_view, 3> kStages = {"START", "END", ""};
    std::string all;
    for (size_t i = draw(entry_count_); i > 0; --i) {
      all += dict({{"name", string(any(kNames))},
                   {"stage", string(any(kStages))},
                   {"time_us", number(static_cast<int32_t>(random_.below(5000)))}});
    }
    return "](" + all + "e";
  }

  std::string settings() {
    static constexpr std::array<std::string_view, 6> kSettings = {
        "expandable_segments:True",        "max_split_size_mb:20",
        "roundup_power2_divisions:8",      "garbage_collection_threshold:0.1",
        "per_process_memory_fraction:0.5", "backend:cudaMallocAsync"};
    return std::string(any(kSettings));
  }

  Random random_;
  const size_t block_count_;
  const uint64_t address_shift_;
  const size_t stream_count_;
  const uint64_t max_bytes_log2_;
  const size_t entry_count_;
  std::vector<size_t> stacks_;  // that have been written
  uint32_t memo_ = 0;           // the next memo index of an entry
  int32_t time_us_ = 0;
};

}  // namespace

std::string random_recording(uint64_t seed) {
  for (size_t entry_count = 4096;; entry_count /= 2) {
    const std::string bytes =
        compressed(RandomRecording(seed, entry_count).pickle(), Compression::kXz);
    if (bytes.size() <= kMaxRandomRecordingBytes || entry_count == 1) return bytes;
  }
}

}  // namespace ashlar
