// SPDX-License-Identifier: Apache-2.0
//
// Reads the top level of the schema, annotations and settings. The other readers read segments,
// traces, stacks and extents.
#include "format/snapshot_builder.h"

#include "base/text.h"
#include "format/renumber_tables.h"

namespace ashlar {
namespace {

// Limit on value visits per byte of the file. Real files stay below one.
constexpr uint64_t kVisitsPerByte = 8;
constexpr uint64_t kMinVisits = 4096;

// The sum of all sizes in a snapshot, except the sizes of failed requests. If the sum is at most
// 2^62, every sum or difference of some of the sizes fits into 63 bits and a sign.
class SizeSum {
 public:
  explicit SizeSum(const Snapshot& snapshot) {
    add(snapshot.segments);
    add(snapshot.host_segments);
    add(snapshot.device_traces);
    add(snapshot.host_traces);
    for (const SnapshotView& view : snapshot.views) add(view.reserved_bytes);
    for (const SnapshotExtent& extent : snapshot.extents) add(extent.bytes);
  }
  bool is_exceeded() const { return is_exceeded_; }

 private:
  static constexpr size_t kMaxSum = size_t{1} << 62;

  void add(size_t bytes) {
    is_exceeded_ |= bytes > kMaxSum - sum_;
    if (!is_exceeded_) sum_ += bytes;
  }
  void add(const std::vector<SnapshotSegment>& segments) {
    for (const SnapshotSegment& segment : segments) {
      add(segment.total_bytes);
      add(segment.allocated_bytes);
      add(segment.active_bytes);
      add(segment.requested_bytes);
      for (const SnapshotBlock& block : segment.blocks) add(block.requested_bytes);
    }
  }
  void add(const std::vector<std::vector<TraceEntry>>& traces) {
    for (const std::vector<TraceEntry>& trace : traces) {
      for (const TraceEntry& entry : trace) {
        if (entry.action != TraceAction::kOom) add(entry.bytes);
      }
    }
  }

  size_t sum_ = 0;
  bool is_exceeded_ = false;
};

}  // namespace

SnapshotBuilder::SnapshotBuilder(ValueStore& store)
    : fields_(store),
      stacks_(fields_, snapshot_.tables),
      traces_(fields_, stacks_),
      segments_(fields_, stacks_),
      extents_(fields_) {
  add_key_texts(store);
  store.set_adopter(traces_);
}

Result<Snapshot> SnapshotBuilder::build(Value root, uint64_t bytes_read) {
  fields_.set_allowance(kMinVisits + kVisitsPerByte * bytes_read);
  if (!read_root(root)) return Status::format("snapshot: " + fields_.problem());
  if (SizeSum(snapshot_).is_exceeded()) {
    return Status::format("snapshot: the sizes add up to more than 2^62 bytes (expected less)");
  }
  renumber_tables(snapshot_);
  return std::move(snapshot_);
}

// Reads the top-level value. A list instead of a dict is the oldest form, which has only segments.
bool SnapshotBuilder::read_root(Value root) {
  if (root.kind == ValueKind::kList) {
    return segments_.read_segments(Key::kSegments, root, snapshot_.segments);
  }
  std::span<const Value> items;
  if (root.kind != ValueKind::kDict || fields_.store().adopted(root)) {
    return fields_.fail(text("the file contains ", name(root.kind),
                             " (expected a dict with \"segments\" and \"device_traces\")"));
  }
  if (!fields_.dict(Key::kSegments, root, items)) return false;
  bool is_snapshot = false;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Key key = key_of(items[i]);
    const Value value = items[i + 1];
    bool is_valid = true;
    is_snapshot |= key == Key::kSegments || key == Key::kDeviceTraces;
    if (key == Key::kSegments) is_valid = segments_.read_segments(key, value, snapshot_.segments);
    if (key == Key::kDeviceTraces) {
      is_valid = traces_.read_traces(key, value, snapshot_.device_traces);
    }
    if (key == Key::kExternalAnnotations) is_valid = read_annotations(value);
    if (key == Key::kAllocatorSettings) is_valid = read_settings(value);
    if (key == Key::kHostSegments) {
      is_valid = segments_.read_segments(key, value, snapshot_.host_segments);
    }
    if (key == Key::kAshlar) is_valid = extents_.read(value, snapshot_);
    if (key == Key::kHostTraces) is_valid = traces_.read_traces(key, value, snapshot_.host_traces);
    if (!is_valid) return false;
  }
  if (!is_snapshot) {
    return fields_.fail("the file has neither \"segments\" nor \"device_traces\" (expected both)");
  }
  return extents_.check(snapshot_);
}

bool SnapshotBuilder::read_annotations(Value list) {
  std::span<const Value> items;
  if (!fields_.list(Key::kExternalAnnotations, list, items)) return false;
  snapshot_.annotations.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    Annotation annotation;
    if (!fields_.charge(sizeof(annotation)) || !read_annotation(items[i], annotation)) {
      return fields_.fail(text("external_annotations[", i, "]: ", fields_.problem()));
    }
    snapshot_.annotations.push_back(std::move(annotation));
  }
  return true;
}

bool SnapshotBuilder::read_annotation(Value dict, Annotation& annotation) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kExternalAnnotations, dict, items)) return false;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Key key = key_of(items[i]);
    const Value value = items[i + 1];
    if (key == Key::kDevice) {
      if (!fields_.device(key, value, annotation.device)) return false;
    } else if (key == Key::kTimeUs) {
      if (!fields_.integer(key, value, annotation.time_us)) return false;
    } else if (value.kind == ValueKind::kString) {
      if (!fields_.append_strings(items[i], value, annotation.fields)) return false;
    }
  }
  return true;
}

// Reads the settings. Settings of types that no version of PyTorch writes are ignored.
bool SnapshotBuilder::read_settings(Value dict) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kAllocatorSettings, dict, items)) return false;
  snapshot_.settings.clear();
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Value value = items[i + 1];
    const size_t string_bytes =
        value.kind == ValueKind::kString ? fields_.text_of(value).size() : 0;
    if (!fields_.charge(sizeof(snapshot_.settings.front()) + fields_.text_of(items[i]).size() +
                        string_bytes)) {
      return false;
    }
    SettingValue setting;
    if (value.kind == ValueKind::kBool) {
      setting = value.bits != 0;
    } else if (value.is_integer()) {
      setting = static_cast<int64_t>(value.bits);
    } else if (value.kind == ValueKind::kFloat) {
      setting = value.as_double();
    } else if (value.kind == ValueKind::kString) {
      setting = std::string(fields_.text_of(value));
    } else if (value.kind == ValueKind::kDict) {
      if (!read_table(value, setting.emplace<4>())) {
        return fields_.fail(text("allocator_settings: ", fields_.problem()));
      }
    } else {
      continue;
    }
    snapshot_.settings.emplace_back(fields_.text_of(items[i]), std::move(setting));
  }
  return true;
}

bool SnapshotBuilder::read_table(Value dict, std::vector<std::pair<std::string, int64_t>>& table) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kAllocatorSettings, dict, items)) return false;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString || !items[i + 1].is_integer()) continue;
    if (!fields_.charge(sizeof(table.front()) + fields_.text_of(items[i]).size())) return false;
    table.emplace_back(fields_.text_of(items[i]), static_cast<int64_t>(items[i + 1].bits));
  }
  return true;
}

}  // namespace ashlar
