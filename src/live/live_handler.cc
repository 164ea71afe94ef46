// SPDX-License-Identifier: Apache-2.0
//
// Three questions.
#include "live/live_handler.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.h"
#include "format/snapshot_pickle.h"
#include "http/request.h"
#include "http/words.h"
#include "live/metrics.h"
#include "live/stats_json.h"

namespace ashlar::live {
namespace {

using http::Answer;
using http::Question;
using http::refusal;

std::string listed(const std::vector<uint64_t>& numbers) {
  std::string list;
  for (const uint64_t each : numbers) list += text(list.empty() ? "" : ", ", each);
  return list.empty() ? "none" : list;
}

}  // namespace

Answer LiveHandler::answer(const Question& question) {
  if (question.path == "metrics") {
    return {.code = 200, .type = kOpenMetricsType, .body = openmetrics(showcase_.look())};
  }
  if (question.path == "stats") {
    return {.code = 200, .type = "application/json", .body = stats_json(showcase_.look())};
  }
  if (question.path == "snapshot") return answer_snapshot(question.query);
  return refusal(404, "nobody knows that question (expected metrics, stats or snapshot)");
}

Answer LiveHandler::answer(const Question& /*question*/, std::unique_ptr<ByteSource> /*body*/) {
  return refusal(405, "nothing can be posted here");
}

Answer LiveHandler::answer_snapshot(std::string_view query) {
  const std::vector<uint64_t> numbers = showcase_.numbers();
  Showcase::Wanted wanted;
  if (const std::optional<std::string_view> given = http::argument(query, "allocator")) {
    const std::optional<uint64_t> number = http::natural(*given);
    if (!number) return refusal(400, "allocator is not a whole number");
    wanted.allocator = *number;
  } else if (numbers.size() == 1) {
    wanted.allocator = numbers.front();
  } else {
    return refusal(400, text("say which allocator: ", listed(numbers)));
  }
  const std::string_view traces = http::argument(query, "traces").value_or("1");
  if (traces != "0" && traces != "1") return refusal(400, "traces is neither 0 nor 1");
  wanted.include_traces = traces == "1";
  const std::optional<uint64_t> since_us =
      http::natural(http::argument(query, "since_us").value_or("0"));
  if (!since_us || *since_us > uint64_t{INT64_MAX}) {
    return refusal(400, "since_us is not a time in microseconds");
  }
  wanted.since_us = static_cast<int64_t>(*since_us);
  // Given back also when the host has no memory for it, and an exception passes. Whoever reads
  // slowly keeps it: there must not be as many in the process's memory as there are readers.
  const auto turn = std::make_shared<const Turn>(*this);
  if (!turn->is_ours()) return refusal(503, "a snapshot is being taken or sent; ask again");
  Answer answer = take_snapshot(wanted);
  answer.until_sent = turn;
  return answer;
}

LiveHandler::Turn::Turn(LiveHandler& handler) : handler_(handler) {
  MutexLock lock(handler_.mutex_);
  is_ours_ = !handler_.is_taking_snapshot_;
  handler_.is_taking_snapshot_ = true;
}

LiveHandler::Turn::~Turn() {
  if (!is_ours_) return;
  MutexLock lock(handler_.mutex_);
  handler_.is_taking_snapshot_ = false;
}

Answer LiveHandler::take_snapshot(const Showcase::Wanted& wanted) {
  Result<Snapshot> taken = showcase_.snapshot(wanted);
  if (!taken.ok()) {
    const bool is_unknown = taken.status().is(StatusKind::kInvalidArgument);
    return refusal(is_unknown ? 404 : 503, taken.status().message());
  }
  StringSink sink;
  if (const Status written = write_snapshot_pickle(*taken, sink); !written.ok()) {
    return refusal(500, written.message());
  }
  return {.code = 200, .type = "application/octet-stream", .body = std::move(sink.text)};
}

}  // namespace ashlar::live
