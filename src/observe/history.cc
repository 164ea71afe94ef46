// SPDX-License-Identifier: Apache-2.0
//
// Records operations in the ring, and converts them to entries when a snapshot reads them.
#include "observe/history.h"

#include <algorithm>
#include <new>

#include "base/call_stack.h"
#include "base/host_memory.h"

namespace ashlar {

// Thread context.

constinit thread_local ThreadContext* ThreadContext::current_context = nullptr;

ThreadContext& ThreadContext::current() {
  // The owner resets the pointer before the context is destroyed, in case a later thread_local
  // destructor records an operation.
  struct ContextOwner {
    ThreadContext context;
    ContextOwner() { current_context = &context; }
    ~ContextOwner() { current_context = nullptr; }
  };
  thread_local ContextOwner owner;
  return owner.context;
}

void push_compile_context(std::string name) {
  ThreadContext::current().compile_contexts.push_back(std::move(name));
}

void pop_compile_context() {
  std::vector<std::string>& contexts = ThreadContext::current().compile_contexts;
  if (!contexts.empty()) contexts.pop_back();
}

void set_user_metadata(std::string text) {
  ThreadContext::current().user_metadata = std::move(text);
}
std::string user_metadata() { return ThreadContext::current().user_metadata; }

// Start and stop.

Status History::start(HistoryOptions options, StackRecorder recorder) {
  const bool needs_stacks = options.context != RecordContext::kNever;
  if (needs_stacks && !options.native_stacks && options.provider == nullptr && !recorder) {
    return Status::invalid_argument("recording stacks requires native_stacks or a frame provider");
  }
  // The replaced provider and recorder are user code, so they are destroyed without the lock.
  std::shared_ptr<FrameProvider> replaced;
  std::shared_ptr<const StackRecorder> new_recorder;
  if (recorder) new_recorder = std::make_shared<const StackRecorder>(std::move(recorder));
  BiasedLock lock(mutex_);
  resize(std::max<size_t>(options.max_entries, 1));  // first, because only this may throw
  if (options.clear) clear();
  replaced = std::move(options_.provider);
  recorder_.swap(new_recorder);
  skipped_actions_ = 0;
  for (const TraceAction action : options.skip_actions) {
    skipped_actions_ |= uint32_t{1} << static_cast<uint32_t>(action);
  }
  context_.store(options.context, std::memory_order_relaxed);
  options_ = std::move(options);
  options_.max_entries = std::max<size_t>(options_.max_entries, 1);
  is_on_.store(true, std::memory_order_relaxed);
  return {};
}

void History::stop() {
  // The provider and the recorder are user code, so they are destroyed without the lock.
  std::shared_ptr<FrameProvider> provider;
  std::shared_ptr<const StackRecorder> recorder;
  BiasedLock lock(mutex_);
  provider = std::move(options_.provider);
  recorder = std::move(recorder_);
  is_on_.store(false, std::memory_order_relaxed);
  context_.store(RecordContext::kNever, std::memory_order_relaxed);
  clear();
  options_ = {};
}

void History::clear() noexcept {
  chunks_.clear();
  count_ = next_ = 0;
  annotations_.clear();
  next_annotation_ = 0;
  strings_.resize(1);
  string_ids_.clear();
}

// Changes the capacity of the ring. Keeps the newest operations and annotations that fit.
void History::resize(size_t max_entries) {
  if (max_entries == options_.max_entries) return;
  std::vector<std::unique_ptr<Chunk>> chunks;
  const size_t kept_count = std::min(count_, max_entries);
  for (size_t i = 0; i < kept_count; ++i) {
    if (i % kChunkSlots == 0) chunks.push_back(std::make_unique<Chunk>());
    (*chunks.back())[i % kChunkSlots] = slot((next_ + count_ - kept_count + i) % count_);
  }
  chunks_ = std::move(chunks);
  count_ = kept_count;
  next_ = count_ % max_entries;

  const auto oldest = static_cast<std::ptrdiff_t>(next_annotation_);
  std::rotate(annotations_.begin(), annotations_.begin() + oldest, annotations_.end());
  next_annotation_ = 0;
  if (annotations_.size() <= max_entries) return;
  const auto excess = static_cast<std::ptrdiff_t>(annotations_.size() - max_entries);
  annotations_.erase(annotations_.begin(), annotations_.begin() + excess);
}

// Recording.

StackId History::capture_slow(const void* first) {
  try {
    return capture_stack(first);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

StackId History::capture_stack(const void* first) {
  std::shared_ptr<FrameProvider> provider;
  std::shared_ptr<const StackRecorder> recorder;
  bool native = false;
  {
    BiasedLock lock(mutex_);
    provider = options_.provider;
    recorder = recorder_;
    native = options_.native_stacks;
  }
  if (recorder != nullptr) return (*recorder)();
  constexpr size_t kMaxStackDepth = 128;
  std::array<uint64_t, kMaxStackDepth> words{};
  const size_t provided =
      provider == nullptr ? 0 : std::min(provider->gather(words), kMaxStackDepth);
  if (provided == 0) provider = nullptr;  // the stack has no provided words
  size_t count = provided;
  if (native) count += capture_call_stack(std::span(words).subspan(provided), first);
  return stacks_.intern({std::span(words).first(count), provided, std::move(provider)});
}

void History::record_slow(const Operation& operation) noexcept {
  try {
    append(operation, nullptr);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the operation is omitted
  }
}

void History::append(Operation operation, const std::string* text) {
  const ThreadContext* thread_context = ThreadContext::current_or_null();
  const std::string* metadata = text;
  if (metadata == nullptr && thread_context != nullptr) metadata = &thread_context->user_metadata;
  const bool has_compile_context =
      thread_context != nullptr && !thread_context->compile_contexts.empty();
  const bool has_metadata = metadata != nullptr && !metadata->empty();
  BiasedLock lock(mutex_);
  if (!is_on()) return;
  if (skipped_actions_ != 0 && operation.is_immediate_free) {
    const bool skips_first = skips(TraceAction::kFreeRequested);
    operation.is_immediate_free = !skips_first && !skips(TraceAction::kFreeCompleted);
    if (skips_first) operation.action = TraceAction::kFreeCompleted;
  }
  if (skips(operation.action)) return;
  if (strings_.size() / 4 > options_.max_entries) drop_unused_strings();
  if (next_ == chunks_.size() * kChunkSlots) chunks_.push_back(std::make_unique<Chunk>());
  if (context() < RecordContext::kAlloc) operation.stack = {};
  const StringId compile_context =
      has_compile_context ? intern(thread_context->compile_contexts.back()) : StringId();
  const StringId user_metadata = has_metadata ? intern(*metadata) : StringId();
  slot(next_) = {operation, ticks_now(), compile_context, user_metadata};
  count_ = std::max(count_, next_ + 1);
  next_ = next_ + 1 == options_.max_entries ? 0 : next_ + 1;
}

void History::annotate(DeviceIndex device,
                       std::vector<std::pair<std::string, std::string>> fields) {
  if (!is_on()) return;
  Annotation annotation{device, static_cast<int64_t>(ticks_now()), std::move(fields)};
  BiasedLock lock(mutex_);
  if (!is_on()) return;
  if (annotations_.size() < options_.max_entries) {
    annotations_.push_back(std::move(annotation));
    return;
  }
  annotations_[next_annotation_] = std::move(annotation);
  next_annotation_ = (next_annotation_ + 1) % annotations_.size();
}

StringId History::intern(const std::string& text) {
  const auto found = string_ids_.find(text);
  if (found != string_ids_.end()) return found->second;
  std::string stored = text;
  reserve_amortized(strings_, strings_.size() + 1);
  const StringId id(static_cast<uint32_t>(strings_.size()));
  string_ids_.emplace(text, id);
  strings_.push_back(std::move(stored));
  return id;
}

// Called when there are more than four strings per slot. A slot refers to at most two strings, so
// at least half of the strings are dropped.
void History::drop_unused_strings() {
  std::vector<StringId> new_ids(strings_.size());  // indexed by old id
  std::vector<uint32_t> kept = {0};                // old ids, indexed by new id
  kept.reserve(strings_.size());
  const auto keep = [&](StringId text) {
    StringId& new_id = new_ids[text.value()];
    if (text == StringId() || new_id != StringId()) return;
    new_id = StringId(static_cast<uint32_t>(kept.size()));
    kept.push_back(text.value());
  };
  for (size_t i = 0; i < count_; ++i) {
    keep(slot(i).compile_context);
    keep(slot(i).user_metadata);
  }
  std::vector<std::string> strings(kept.size());

  // From here on, nothing allocates.
  for (size_t i = 0; i < kept.size(); ++i) strings[i] = std::move(strings_[kept[i]]);
  strings_ = std::move(strings);
  for (auto entry = string_ids_.begin(); entry != string_ids_.end();) {
    entry->second = new_ids[entry->second.value()];
    entry = entry->second == StringId() ? string_ids_.erase(entry) : std::next(entry);
  }
  for (size_t i = 0; i < count_; ++i) {
    slot(i).compile_context = new_ids[slot(i).compile_context.value()];
    slot(i).user_metadata = new_ids[slot(i).user_metadata.value()];
  }
}

// Reading.

std::vector<TraceEntry> History::entries(size_t max_entries, size_t skip_count) const {
  std::vector<TraceEntry> newest_first;
  newest_first.reserve(std::min(max_entries, 2 * count_));
  const auto add = [&](const Slot& kept, TraceAction action) {
    if (newest_first.size() == max_entries) return;
    TraceEntry& entry = newest_first.emplace_back();
    entry.action = action;
    entry.stack = kept.operation.stack;
    entry.compile_context = kept.compile_context;
    entry.user_metadata = kept.user_metadata;
    entry.address = kept.operation.address;
    entry.bytes = kept.operation.bytes;
    entry.stream = kept.operation.stream;
    entry.pool = kept.operation.pool;
    entry.time_us = static_cast<int64_t>(kept.ticks);
  };
  for (size_t age = 1 + skip_count; age <= count_; ++age) {
    const Slot& kept = slot((next_ + count_ - age) % count_);
    if (kept.operation.is_immediate_free) add(kept, TraceAction::kFreeCompleted);
    add(kept, kept.operation.action);
  }
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

std::vector<StackId> History::stacks_in_use() const {
  BiasedLock lock(mutex_);
  std::vector<StackId> stacks;
  stacks.reserve(count_);
  for (size_t i = 0; i < count_; ++i) stacks.push_back(slot(i).operation.stack);
  return stacks;
}

History::Position History::position() const {
  BiasedLock lock(mutex_);
  if (count_ == 0) return {};
  const size_t newest = (next_ + count_ - 1) % count_;
  return {newest, slot(newest).ticks};
}

void History::read_into(Snapshot& snapshot, DeviceIndex device, const Position& position) const {
  BiasedLock lock(mutex_);
  clock_.calibrate();
  if (snapshot.device_traces.size() <= device.value()) {
    snapshot.device_traces.resize(device.value() + 1);
  }
  std::vector<TraceEntry>& trace = snapshot.device_traces[device.value()];
  const bool is_cut = contains_position(position);
  const size_t later_count = is_cut ? (next_ + count_ - 1 - position.index) % count_ : 0;
  trace = entries(options_.max_entries, later_count);
  for (TraceEntry& entry : trace) {
    entry.device = device;
    entry.time_us = clock_.unix_us(static_cast<uint64_t>(entry.time_us));
  }
  for (size_t i = 0; i < annotations_.size(); ++i) {
    Annotation annotation = annotations_[(next_annotation_ + i) % annotations_.size()];
    if (is_cut && static_cast<uint64_t>(annotation.time_us) > position.ticks) continue;
    annotation.time_us = clock_.unix_us(static_cast<uint64_t>(annotation.time_us));
    snapshot.annotations.push_back(std::move(annotation));
  }
  snapshot.tables.strings = strings_;
  convert_times_locked(snapshot.extents);
}

void History::convert_times(std::vector<SnapshotExtent>& extents) const {
  BiasedLock lock(mutex_);
  clock_.calibrate();
  convert_times_locked(extents);
}

void History::convert_times_locked(std::vector<SnapshotExtent>& extents) const {
  for (SnapshotExtent& extent : extents) {
    for (SnapshotMapping& mapping : extent.mappings) {
      mapping.mapped_at_us = clock_.unix_us(static_cast<uint64_t>(mapping.mapped_at_us));
    }
  }
}

}  // namespace ashlar
