// SPDX-License-Identifier: Apache-2.0
//
// One row for each metric, and for each a line per allocator, of whichever kind, or per pool.
#include "live/metrics.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "format/utf8.h"

namespace ashlar::live {
namespace {

enum class Kind { kGauge, kCounter };

// What is told of something: an allocator, one of its pools, or an allocator of pinned memory.
template <typename Of>
struct Metric {
  std::string_view name;  // without the suffix of counters
  Kind kind = Kind::kGauge;
  std::string_view unit;  // which the name ends with; empty: none
  std::string_view help;
  int64_t (*value)(const Of& of);
};

using ByAllocator = Metric<ShownAllocator>;
using ByPool = Metric<UsageStats>;
using ByHost = Metric<ShownHostAllocator>;

constexpr std::array kByAllocator = {
    ByAllocator{"ashlar_device_capacity_bytes", Kind::kGauge, "bytes",
                "Memory of the allocator's device.",
                [](const ShownAllocator& a) { return static_cast<int64_t>(a.capacity_bytes); }},
    ByAllocator{"ashlar_reserved_bytes", Kind::kGauge, "bytes", "Memory held from the device.",
                [](const ShownAllocator& a) { return a.stats.reserved_bytes.all.current; }},
    ByAllocator{"ashlar_reserved_peak_bytes", Kind::kGauge, "bytes",
                "The most that was held from the device since the peaks were last reset.",
                [](const ShownAllocator& a) { return a.stats.reserved_bytes.all.peak; }},
    ByAllocator{"ashlar_active_bytes", Kind::kGauge, "bytes",
                "Blocks handed out, or freed and waiting for a stream.",
                [](const ShownAllocator& a) { return a.stats.active_bytes.all.current; }},
    ByAllocator{"ashlar_active_peak_bytes", Kind::kGauge, "bytes",
                "The most of it since the peaks were last reset.",
                [](const ShownAllocator& a) { return a.stats.active_bytes.all.peak; }},
    ByAllocator{"ashlar_allocated_bytes", Kind::kGauge, "bytes", "Blocks handed out.",
                [](const ShownAllocator& a) { return a.stats.allocated_bytes.all.current; }},
    ByAllocator{"ashlar_allocated_peak_bytes", Kind::kGauge, "bytes",
                "The most of it since the peaks were last reset.",
                [](const ShownAllocator& a) { return a.stats.allocated_bytes.all.peak; }},
    ByAllocator{"ashlar_requested_bytes", Kind::kGauge, "bytes",
                "What was asked for, of the active blocks.",
                [](const ShownAllocator& a) { return a.stats.requested_bytes.all.current; }},
    ByAllocator{"ashlar_requested_peak_bytes", Kind::kGauge, "bytes",
                "The most of it since the peaks were last reset.",
                [](const ShownAllocator& a) { return a.stats.requested_bytes.all.peak; }},
    ByAllocator{"ashlar_inactive_split_bytes", Kind::kGauge, "bytes",
                "Cached memory that the device cannot have back, since its neighbours are in use.",
                [](const ShownAllocator& a) { return a.stats.inactive_split_bytes.all.current; }},
    ByAllocator{"ashlar_blocks", Kind::kGauge, "", "Blocks handed out.",
                [](const ShownAllocator& a) { return a.stats.allocation.all.current; }},
    ByAllocator{"ashlar_segments", Kind::kGauge, "", "Plain segments held from the device.",
                [](const ShownAllocator& a) { return a.stats.segment.all.current; }},
    ByAllocator{"ashlar_history_recording", Kind::kGauge, "",
                "1 while acts are being recorded, else 0.",
                [](const ShownAllocator& a) { return int64_t{a.is_history_on}; }},
    ByAllocator{"ashlar_allocations", Kind::kCounter, "", "Blocks ever handed out.",
                [](const ShownAllocator& a) { return a.stats.allocation.all.risen; }},
    ByAllocator{"ashlar_frees", Kind::kCounter, "", "Blocks ever freed.",
                [](const ShownAllocator& a) { return a.stats.allocation.all.fallen; }},
    ByAllocator{"ashlar_device_allocs", Kind::kCounter, "",
                "Calls that got memory from the device.",
                [](const ShownAllocator& a) { return a.stats.device_allocs; }},
    ByAllocator{"ashlar_device_frees", Kind::kCounter, "",
                "Calls that gave memory back to the device.",
                [](const ShownAllocator& a) { return a.stats.device_frees; }},
    ByAllocator{"ashlar_stitches", Kind::kCounter, "",
                "Blocks that free memory of other places was mapped for.",
                [](const ShownAllocator& a) { return a.stats.stitches; }},
    ByAllocator{"ashlar_alloc_retries", Kind::kCounter, "",
                "Allocations that needed the cache flushed.",
                [](const ShownAllocator& a) { return a.stats.alloc_retries; }},
    ByAllocator{"ashlar_ooms", Kind::kCounter, "", "Failures for want of memory.",
                [](const ShownAllocator& a) { return a.stats.ooms; }},
    ByAllocator{"ashlar_oom_rejections", Kind::kCounter, "",
                "Requests refused without asking the device.",
                [](const ShownAllocator& a) { return a.stats.oom_rejections; }},
    ByAllocator{"ashlar_stream_syncs", Kind::kCounter, "",
                "Times the host waited for all pending frees.",
                [](const ShownAllocator& a) { return a.stats.sync_all_streams; }},
};

constexpr std::array kByPool = {
    ByPool{"ashlar_pool_reserved_bytes", Kind::kGauge, "bytes",
           "Memory that the pool holds from the device.",
           [](const UsageStats& pool) { return pool.reserved_bytes.all.current; }},
    ByPool{"ashlar_pool_active_bytes", Kind::kGauge, "bytes",
           "The pool's blocks handed out, or freed and waiting for a stream.",
           [](const UsageStats& pool) { return pool.active_bytes.current; }},
    ByPool{"ashlar_pool_allocated_bytes", Kind::kGauge, "bytes", "The pool's blocks handed out.",
           [](const UsageStats& pool) { return pool.allocated_bytes.current; }},
    ByPool{"ashlar_pool_requested_bytes", Kind::kGauge, "bytes",
           "What was asked for, of the pool's active blocks.",
           [](const UsageStats& pool) { return pool.requested_bytes.current; }},
    ByPool{"ashlar_pool_blocks", Kind::kGauge, "", "The pool's blocks handed out.",
           [](const UsageStats& pool) { return pool.allocation.current; }},
};

constexpr std::array kByHost = {
    ByHost{"ashlar_host_reserved_bytes", Kind::kGauge, "bytes",
           "Pinned memory held from the host: in use, or cached.",
           [](const ShownHostAllocator& h) { return h.stats.allocated_bytes.current; }},
    ByHost{"ashlar_host_reserved_peak_bytes", Kind::kGauge, "bytes",
           "The most of it since the peaks were last reset.",
           [](const ShownHostAllocator& h) { return h.stats.allocated_bytes.peak; }},
    ByHost{"ashlar_host_active_bytes", Kind::kGauge, "bytes",
           "Pinned blocks handed out, or freed and waiting for streams or graphs.",
           [](const ShownHostAllocator& h) { return h.stats.active_bytes.current; }},
    ByHost{"ashlar_host_active_peak_bytes", Kind::kGauge, "bytes",
           "The most of it since the peaks were last reset.",
           [](const ShownHostAllocator& h) { return h.stats.active_bytes.peak; }},
    ByHost{"ashlar_host_requested_bytes", Kind::kGauge, "bytes",
           "What was asked for, of the active pinned blocks.",
           [](const ShownHostAllocator& h) { return h.stats.requested_bytes.current; }},
    ByHost{"ashlar_host_requested_peak_bytes", Kind::kGauge, "bytes",
           "The most of it since the peaks were last reset.",
           [](const ShownHostAllocator& h) { return h.stats.requested_bytes.peak; }},
    ByHost{"ashlar_host_pending_bytes", Kind::kGauge, "bytes",
           "Pinned blocks freed that streams may still be using.",
           [](const ShownHostAllocator& h) { return h.stats.pending_bytes.current; }},
    ByHost{"ashlar_host_graph_bytes", Kind::kGauge, "bytes",
           "Pinned blocks freed that a graph may still use.",
           [](const ShownHostAllocator& h) { return h.stats.graph_bytes.current; }},
    ByHost{"ashlar_host_blocks", Kind::kGauge, "", "Active pinned blocks.",
           [](const ShownHostAllocator& h) { return h.stats.active_requests.current; }},
    ByHost{"ashlar_host_allocations", Kind::kCounter, "", "Pinned blocks ever handed out.",
           [](const ShownHostAllocator& h) { return h.stats.active_requests.risen; }},
    ByHost{"ashlar_host_pins", Kind::kCounter, "", "Calls that pinned memory of the host.",
           [](const ShownHostAllocator& h) { return h.stats.host_allocs; }},
    ByHost{"ashlar_host_unpins", Kind::kCounter, "",
           "Calls that gave pinned memory back to the host.",
           [](const ShownHostAllocator& h) { return h.stats.host_frees; }},
    ByHost{"ashlar_host_alloc_retries", Kind::kCounter, "",
           "Pinned allocations that needed the cache flushed.",
           [](const ShownHostAllocator& h) { return h.stats.alloc_retries; }},
    ByHost{"ashlar_host_ooms", Kind::kCounter, "",
           "Failures for want of memory that can be pinned.",
           [](const ShownHostAllocator& h) { return h.stats.ooms; }},
};

// Any bytes as the value of a label, between quotes: what would end it is escaped, what is not
// UTF-8 replaced.
std::string quoted(std::string_view plain) {
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

std::string labels_of(const ShownAllocator& allocator) {
  return text("allocator=\"", allocator.number, "\",backend=", quoted(allocator.backend),
              ",device=\"", allocator.device, "\",engine=", quoted(allocator.engine));
}

std::string labels_of(const ShownHostAllocator& allocator) {
  return text("host_allocator=\"", allocator.number, "\",backend=", quoted(allocator.backend),
              ",device=\"", allocator.device, "\"");
}

template <typename Of>
void put_head(std::string& out, const Metric<Of>& metric) {
  out += text("# TYPE ", metric.name, metric.kind == Kind::kGauge ? " gauge\n" : " counter\n");
  if (!metric.unit.empty()) out += text("# UNIT ", metric.name, " ", metric.unit, "\n");
  out += text("# HELP ", metric.name, " ", metric.help, "\n");
}

template <typename Of>
std::string sample(const Metric<Of>& metric, const std::string& labels, const Of& of) {
  return text(metric.name, metric.kind == Kind::kGauge ? "" : "_total", "{", labels, "} ",
              metric.value(of), "\n");
}

}  // namespace

std::string openmetrics(const ShownProcess& process) {
  std::string out = text("# TYPE ashlar_build info\n# HELP ashlar_build The version of Ashlar.\n",
                         "ashlar_build_info{version=", quoted(process.version), "} 1\n",
                         "# TYPE ashlar_shown_seconds gauge\n# UNIT ashlar_shown_seconds seconds\n",
                         "# HELP ashlar_shown_seconds For how long the process has shown itself.\n",
                         "ashlar_shown_seconds ", process.shown_seconds, "\n");
  out += "# TYPE ashlar_allocator info\n# HELP ashlar_allocator What an allocator is like.\n";
  for (const ShownAllocator& each : process.allocators) {
    out +=
        text("ashlar_allocator_info{", labels_of(each), ",device_name=", quoted(each.device_name),
             ",options=", quoted(each.options), "} 1\n");
  }
  for (const ByAllocator& metric : kByAllocator) {
    put_head(out, metric);
    for (const ShownAllocator& each : process.allocators) {
      out += sample(metric, labels_of(each), each);
    }
  }
  for (const ByPool& metric : kByPool) {
    put_head(out, metric);
    for (const ShownAllocator& each : process.allocators) {
      for (const auto& [id, pool] : each.stats.pools) {
        out +=
            sample(metric, text(labels_of(each), ",pool=\"", id.capture, "_", id.user, "\""), pool);
      }
    }
  }
  for (const ByHost& metric : kByHost) {
    put_head(out, metric);
    for (const ShownHostAllocator& each : process.host_allocators) {
      out += sample(metric, labels_of(each), each);
    }
  }
  return out + "# EOF\n";
}

}  // namespace ashlar::live
