// SPDX-License-Identifier: Apache-2.0
//
// Contains one table row for each metric. A metric produces one line for each allocator, pool or
// allocator of pinned memory, in Prometheus's text format or in OpenMetrics.
#include "live/exporters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "format/utf8.h"
#include "http/accept.h"

namespace ashlar::live {
namespace {

constexpr http::MediaType kPrometheusType{.name = "text/plain", .version = "0.0.4"};
constexpr http::MediaType kOpenMetricsType{.name = "application/openmetrics-text",
                                           .version = "1.0.0"};

enum class Kind { kGauge, kCounter, kInfo };

// A metric. `Source` is the status of an allocator, a pool or an allocator of pinned memory.
template <typename Source>
struct Metric {
  std::string_view name;  // name without the "_total" suffix of counters
  Kind kind = Kind::kGauge;
  std::string_view unit;  // the last part of the name; empty if the metric has no unit
  std::string_view help;  // without backslashes, quotes and line breaks, which would need escapes
  int64_t (*value)(const Source& source);
};

using AllocatorMetric = Metric<AllocatorStatus>;
using PoolMetric = Metric<UsageStats>;
using HostMetric = Metric<HostAllocatorStatus>;

constexpr std::array kAllocatorMetrics = {
    AllocatorMetric{
        "ashlar_device_capacity_bytes", Kind::kGauge, "bytes", "Memory of the allocator's device.",
        [](const AllocatorStatus& a) { return static_cast<int64_t>(a.capacity_bytes); }},
    AllocatorMetric{"ashlar_reserved_bytes", Kind::kGauge, "bytes",
                    "Memory reserved from the device.",
                    [](const AllocatorStatus& a) { return a.stats.reserved_bytes.all.current; }},
    AllocatorMetric{"ashlar_reserved_peak_bytes", Kind::kGauge, "bytes",
                    "Peak of reserved memory since the last reset.",
                    [](const AllocatorStatus& a) { return a.stats.reserved_bytes.all.peak; }},
    AllocatorMetric{"ashlar_active_bytes", Kind::kGauge, "bytes",
                    "Allocated blocks and pending frees.",
                    [](const AllocatorStatus& a) { return a.stats.active_bytes.all.current; }},
    AllocatorMetric{"ashlar_active_peak_bytes", Kind::kGauge, "bytes", "Peak since the last reset.",
                    [](const AllocatorStatus& a) { return a.stats.active_bytes.all.peak; }},
    AllocatorMetric{"ashlar_allocated_bytes", Kind::kGauge, "bytes", "Allocated blocks.",
                    [](const AllocatorStatus& a) { return a.stats.allocated_bytes.all.current; }},
    AllocatorMetric{"ashlar_allocated_peak_bytes", Kind::kGauge, "bytes",
                    "Peak since the last reset.",
                    [](const AllocatorStatus& a) { return a.stats.allocated_bytes.all.peak; }},
    AllocatorMetric{"ashlar_requested_bytes", Kind::kGauge, "bytes",
                    "Requested bytes of active blocks.",
                    [](const AllocatorStatus& a) { return a.stats.requested_bytes.all.current; }},
    AllocatorMetric{"ashlar_requested_peak_bytes", Kind::kGauge, "bytes",
                    "Peak since the last reset.",
                    [](const AllocatorStatus& a) { return a.stats.requested_bytes.all.peak; }},
    AllocatorMetric{
        "ashlar_inactive_split_bytes", Kind::kGauge, "bytes",
        "Cached memory that cannot be released, because its segment is in use.",
        [](const AllocatorStatus& a) { return a.stats.inactive_split_bytes.all.current; }},
    AllocatorMetric{"ashlar_blocks", Kind::kGauge, "", "Allocated blocks.",
                    [](const AllocatorStatus& a) { return a.stats.allocation.all.current; }},
    AllocatorMetric{"ashlar_segments", Kind::kGauge, "", "Plain segments reserved from the device.",
                    [](const AllocatorStatus& a) { return a.stats.segment.all.current; }},
    AllocatorMetric{"ashlar_history_recording", Kind::kGauge, "",
                    "1 while operations are recorded, else 0.",
                    [](const AllocatorStatus& a) { return int64_t{a.is_history_on}; }},
    AllocatorMetric{"ashlar_allocations", Kind::kCounter, "", "Allocations so far.",
                    [](const AllocatorStatus& a) { return a.stats.allocation.all.increased; }},
    AllocatorMetric{"ashlar_frees", Kind::kCounter, "", "Frees so far.",
                    [](const AllocatorStatus& a) { return a.stats.allocation.all.decreased; }},
    AllocatorMetric{"ashlar_device_allocs", Kind::kCounter, "",
                    "Calls that obtained memory from the device.",
                    [](const AllocatorStatus& a) { return a.stats.device_allocs; }},
    AllocatorMetric{"ashlar_device_frees", Kind::kCounter, "",
                    "Calls that returned memory to the device.",
                    [](const AllocatorStatus& a) { return a.stats.device_frees; }},
    AllocatorMetric{"ashlar_stitches", Kind::kCounter, "",
                    "Blocks stitched from free memory of other views.",
                    [](const AllocatorStatus& a) { return a.stats.stitches; }},
    AllocatorMetric{"ashlar_alloc_retries", Kind::kCounter, "",
                    "Allocations that needed the cache flushed.",
                    [](const AllocatorStatus& a) { return a.stats.alloc_retries; }},
    AllocatorMetric{"ashlar_ooms", Kind::kCounter, "", "Out-of-memory failures.",
                    [](const AllocatorStatus& a) { return a.stats.ooms; }},
    AllocatorMetric{"ashlar_oom_rejections", Kind::kCounter, "",
                    "Requests rejected without calling the device.",
                    [](const AllocatorStatus& a) { return a.stats.oom_rejections; }},
    AllocatorMetric{"ashlar_stream_syncs", Kind::kCounter, "",
                    "Times the host waited for all pending frees.",
                    [](const AllocatorStatus& a) { return a.stats.sync_all_streams; }},
};

constexpr std::array kPoolMetrics = {
    PoolMetric{"ashlar_pool_reserved_bytes", Kind::kGauge, "bytes",
               "Memory that the pool has reserved.",
               [](const UsageStats& pool) { return pool.reserved_bytes.all.current; }},
    PoolMetric{"ashlar_pool_active_bytes", Kind::kGauge, "bytes",
               "Allocated blocks and pending frees of the pool.",
               [](const UsageStats& pool) { return pool.active_bytes.current; }},
    PoolMetric{"ashlar_pool_allocated_bytes", Kind::kGauge, "bytes",
               "Allocated blocks of the pool.",
               [](const UsageStats& pool) { return pool.allocated_bytes.current; }},
    PoolMetric{"ashlar_pool_requested_bytes", Kind::kGauge, "bytes",
               "Requested bytes of the pool's active blocks.",
               [](const UsageStats& pool) { return pool.requested_bytes.current; }},
    PoolMetric{"ashlar_pool_blocks", Kind::kGauge, "", "Allocated blocks of the pool.",
               [](const UsageStats& pool) { return pool.allocation.current; }},
};

constexpr std::array kHostMetrics = {
    HostMetric{"ashlar_host_reserved_bytes", Kind::kGauge, "bytes",
               "Pinned memory reserved from the host, in use or cached.",
               [](const HostAllocatorStatus& h) { return h.stats.allocated_bytes.current; }},
    HostMetric{"ashlar_host_reserved_peak_bytes", Kind::kGauge, "bytes",
               "Peak since the last reset.",
               [](const HostAllocatorStatus& h) { return h.stats.allocated_bytes.peak; }},
    HostMetric{"ashlar_host_active_bytes", Kind::kGauge, "bytes",
               "Allocated pinned blocks, and freed ones that streams or graphs may use.",
               [](const HostAllocatorStatus& h) { return h.stats.active_bytes.current; }},
    HostMetric{"ashlar_host_active_peak_bytes", Kind::kGauge, "bytes", "Peak since the last reset.",
               [](const HostAllocatorStatus& h) { return h.stats.active_bytes.peak; }},
    HostMetric{"ashlar_host_requested_bytes", Kind::kGauge, "bytes",
               "Requested bytes of active pinned blocks.",
               [](const HostAllocatorStatus& h) { return h.stats.requested_bytes.current; }},
    HostMetric{"ashlar_host_requested_peak_bytes", Kind::kGauge, "bytes",
               "Peak since the last reset.",
               [](const HostAllocatorStatus& h) { return h.stats.requested_bytes.peak; }},
    HostMetric{"ashlar_host_pending_bytes", Kind::kGauge, "bytes",
               "Freed pinned blocks that streams may still use.",
               [](const HostAllocatorStatus& h) { return h.stats.pending_bytes.current; }},
    HostMetric{"ashlar_host_graph_bytes", Kind::kGauge, "bytes",
               "Freed pinned blocks that a graph may still use.",
               [](const HostAllocatorStatus& h) { return h.stats.graph_bytes.current; }},
    HostMetric{"ashlar_host_blocks", Kind::kGauge, "", "Active pinned blocks.",
               [](const HostAllocatorStatus& h) { return h.stats.active_requests.current; }},
    HostMetric{"ashlar_host_allocations", Kind::kCounter, "", "Pinned allocations so far.",
               [](const HostAllocatorStatus& h) { return h.stats.active_requests.increased; }},
    HostMetric{"ashlar_host_pins", Kind::kCounter, "", "Calls that pinned host memory.",
               [](const HostAllocatorStatus& h) { return h.stats.host_allocs; }},
    HostMetric{"ashlar_host_unpins", Kind::kCounter, "", "Calls that released pinned memory.",
               [](const HostAllocatorStatus& h) { return h.stats.host_frees; }},
    HostMetric{"ashlar_host_alloc_retries", Kind::kCounter, "",
               "Pinned allocations that needed the cache flushed.",
               [](const HostAllocatorStatus& h) { return h.stats.alloc_retries; }},
    HostMetric{"ashlar_host_ooms", Kind::kCounter, "", "Out-of-memory failures for pinned memory.",
               [](const HostAllocatorStatus& h) { return h.stats.ooms; }},
};

// Formats arbitrary bytes as a quoted label value. Escapes special characters and replaces invalid
// UTF-8.
std::string quote_label(std::string_view plain) {
  std::string value = "\"";
  while (!plain.empty()) {
    const size_t length = utf8_character_bytes(plain);
    const std::string_view character = plain.substr(0, std::max<size_t>(1, length));
    plain.remove_prefix(character.size());
    if (length == 0 || is_surrogate(character)) {
      value += "\xef\xbf\xbd";
    } else if (character == "\n") {
      value += "\\n";
    } else {
      if (character == "\\" || character == "\"") value += '\\';
      value += character;
    }
  }
  return value + '"';
}

std::string labels_of(const AllocatorStatus& allocator) {
  return text("allocator=\"", allocator.number, "\",backend=", quote_label(allocator.backend),
              ",device=\"", allocator.device, "\",engine=", quote_label(allocator.engine));
}

std::string labels_of(const HostAllocatorStatus& allocator) {
  return text("host_allocator=\"", allocator.number, "\",backend=", quote_label(allocator.backend),
              ",device=\"", allocator.device, "\"");
}

// Writes metrics as text. Each metric consists of its metadata (begin) and its samples.
class MetricsWriter {
 public:
  explicit MetricsWriter(MetricsFormat format) : format_(format) {}

  struct Family {
    std::string_view name;
    Kind kind = Kind::kGauge;
    std::string_view unit;
    std::string_view help;
  };
  void begin(const Family& family) {
    sample_name_ = text(family.name, suffix(family.kind));
    // In OpenMetrics, a metric is named without the suffix of its samples.
    const std::string_view name = is_open() ? family.name : std::string_view(sample_name_);
    out_ += text("# HELP ", name, " ", family.help, "\n# TYPE ", name, " ", type_name(family.kind),
                 "\n");
    if (is_open() && !family.unit.empty()) out_ += text("# UNIT ", name, " ", family.unit, "\n");
  }

  // `labels` is the text between the braces; empty if the sample has no labels.
  template <typename Value>
  void add_sample(std::string_view labels, Value value) {
    out_ += sample_name_;
    if (!labels.empty()) out_ += text("{", labels, "}");
    out_ += text(" ", value, "\n");
  }

  std::string finish() && {
    if (is_open()) out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  bool is_open() const { return format_ == MetricsFormat::kOpenMetrics; }
  static std::string_view suffix(Kind kind) {
    if (kind == Kind::kCounter) return "_total";
    return kind == Kind::kInfo ? "_info" : "";
  }
  // The Prometheus text format has no info type, so info metrics become gauges.
  std::string_view type_name(Kind kind) const {
    if (kind == Kind::kCounter) return "counter";
    return kind == Kind::kInfo && is_open() ? "info" : "gauge";
  }

  const MetricsFormat format_;
  std::string sample_name_{};
  std::string out_{};
};

template <typename Source>
void begin_metric(MetricsWriter& writer, const Metric<Source>& metric) {
  writer.begin({metric.name, metric.kind, metric.unit, metric.help});
}

void write_process(MetricsWriter& writer, const ProcessStatus& process) {
  writer.begin({"ashlar_build", Kind::kInfo, "", "The version of Ashlar."});
  writer.add_sample(text("version=", quote_label(process.version)), 1);
  writer.begin(
      {"ashlar_monitored_seconds", Kind::kGauge, "seconds", "Time since monitoring started."});
  writer.add_sample("", process.monitored_seconds);
}

void write_allocators(MetricsWriter& writer, const std::vector<AllocatorStatus>& allocators) {
  writer.begin({"ashlar_allocator", Kind::kInfo, "", "Properties of an allocator."});
  for (const AllocatorStatus& each : allocators) {
    writer.add_sample(text(labels_of(each), ",device_name=", quote_label(each.device_name),
                           ",options=", quote_label(each.options)),
                      1);
  }
  for (const AllocatorMetric& metric : kAllocatorMetrics) {
    begin_metric(writer, metric);
    for (const AllocatorStatus& each : allocators) {
      writer.add_sample(labels_of(each), metric.value(each));
    }
  }
  for (const PoolMetric& metric : kPoolMetrics) {
    begin_metric(writer, metric);
    for (const AllocatorStatus& each : allocators) {
      for (const auto& [id, pool] : each.stats.pools) {
        writer.add_sample(text(labels_of(each), ",pool=\"", id.capture, "_", id.user, "\""),
                          metric.value(pool));
      }
    }
  }
}

void write_host_allocators(MetricsWriter& writer,
                           const std::vector<HostAllocatorStatus>& allocators) {
  for (const HostMetric& metric : kHostMetrics) {
    begin_metric(writer, metric);
    for (const HostAllocatorStatus& each : allocators) {
      writer.add_sample(labels_of(each), metric.value(each));
    }
  }
}

}  // namespace

MetricsFormat choose_metrics_format(std::string_view accept) {
  const http::Preference plain = http::preference_for(accept, kPrometheusType);
  const http::Preference open = http::preference_for(accept, kOpenMetricsType);
  const bool is_requested = open.thousandths > plain.thousandths ||
                            (open.thousandths == plain.thousandths && open.is_named);
  return is_requested && open.thousandths > 0 ? MetricsFormat::kOpenMetrics
                                              : MetricsFormat::kPrometheus;
}

std::string_view content_type(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string format_metrics(const ProcessStatus& process, MetricsFormat format) {
  MetricsWriter writer(format);
  write_process(writer, process);
  write_allocators(writer, process.allocators);
  write_host_allocators(writer, process.host_allocators);
  return std::move(writer).finish();
}

}  // namespace ashlar::live
