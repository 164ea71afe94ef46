// SPDX-License-Identifier: Apache-2.0
//
// Serializes and parses the messages of TCP stores.
#include "symm/stores/tcp/store_message.h"

#include <algorithm>

#include "base/text.h"
#include "base/wire.h"

namespace ashlar::symm {
namespace {

constexpr std::string_view kHelloMagic = "ashlar store 1";
constexpr size_t kMaxErrorTextBytes = 1024;

std::string frame(std::string body) {
  WireWriter writer;
  return writer.append_text(body).take();
}

Status malformed(std::string_view what) {
  return Status::format(text("malformed ", what, " of a TCP store"));
}

// The kinds of errors that servers send. Others are sent as kDeviceFault.
bool is_sent_kind(StatusKind kind) {
  return kind == StatusKind::kOutOfMemory || kind == StatusKind::kInvalidArgument ||
         kind == StatusKind::kFormat;
}

Status received_status(StatusKind kind, std::string message) {
  switch (kind) {
    case StatusKind::kOutOfMemory: return Status::out_of_memory(std::move(message));
    case StatusKind::kInvalidArgument: return Status::invalid_argument(std::move(message));
    case StatusKind::kFormat: return Status::format(std::move(message));
    default: return Status::device_fault("store", 0, std::move(message));
  }
}

// Reads the fields of a request after its call. Returns whether the call is known.
bool read_fields(WireReader& reader, StoreRequest& request) {
  const auto read_key = [&] { request.keys.emplace_back(reader.text(Store::kMaxKeyBytes)); };
  switch (request.call) {
    case StoreCall::kHello:
      if (reader.raw(kHelloMagic.size()) != kHelloMagic) return false;
      request.token = reader.text(kMaxTokenBytes);
      return true;
    case StoreCall::kSet:
      read_key();
      request.value = reader.text(Store::kMaxValueBytes);
      request.time_to_live_ms = reader.number<int64_t>();
      return true;
    case StoreCall::kTryGet: {
      const auto count = reader.number<uint32_t>();
      if (count == 0 || count > kMaxRequestKeys) return false;
      for (uint32_t i = 0; i < count && reader.ok(); ++i) read_key();
      return true;
    }
    case StoreCall::kAdd:
      read_key();
      request.amount = reader.number<int64_t>();
      request.time_to_live_ms = reader.number<int64_t>();
      request.receipt = {reader.number<uint64_t>(), reader.number<uint64_t>()};
      return true;
    case StoreCall::kErase: read_key(); return true;
    case StoreCall::kWait:
      request.version = reader.number<uint64_t>();
      request.wait_ms = reader.number<uint32_t>();
      return true;
  }
  return false;
}

}  // namespace

bool is_valid_token(std::string_view token) {
  return token.size() >= kMinTokenBytes && token.size() <= kMaxTokenBytes &&
         std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string serialize(const StoreRequest& request) {
  WireWriter writer;
  writer.append_number(static_cast<uint8_t>(request.call));
  switch (request.call) {
    case StoreCall::kHello: writer.append_raw(kHelloMagic).append_text(request.token); break;
    case StoreCall::kSet:
      writer.append_text(request.keys.front()).append_text(request.value);
      writer.append_number(request.time_to_live_ms);
      break;
    case StoreCall::kTryGet:
      writer.append_number(static_cast<uint32_t>(request.keys.size()));
      for (const std::string& key : request.keys) writer.append_text(key);
      break;
    case StoreCall::kAdd:
      writer.append_text(request.keys.front()).append_number(request.amount);
      writer.append_number(request.time_to_live_ms);
      writer.append_number(request.receipt.low).append_number(request.receipt.high);
      break;
    case StoreCall::kErase: writer.append_text(request.keys.front()); break;
    case StoreCall::kWait: writer.append_number(request.version).append_number(request.wait_ms);
  }
  return frame(writer.take());
}

std::string serialize(const StoreResponse& response) {
  WireWriter writer;
  const StatusKind kind = response.status.kind();
  const bool is_sent = kind == StatusKind::kOk || is_sent_kind(kind);
  writer.append_number(static_cast<uint8_t>(is_sent ? kind : StatusKind::kDeviceFault));
  if (!response.status.ok()) {
    writer.append_text(std::string_view(response.status.message()).substr(0, kMaxErrorTextBytes));
    return frame(writer.take());
  }
  writer.append_number(response.number)
      .append_number(static_cast<uint32_t>(response.values.size()));
  for (const std::optional<std::string>& value : response.values) {
    writer.append_number(static_cast<uint8_t>(value ? 1 : 0));
    if (value) writer.append_text(*value);
  }
  return frame(writer.take());
}

Result<StoreRequest> parse_request(std::string_view body) {
  WireReader reader(body);
  StoreRequest request;
  request.call = static_cast<StoreCall>(reader.number<uint8_t>());
  if (!read_fields(reader, request) || !reader.is_done()) return malformed("request");
  if (request.call == StoreCall::kHello && !is_valid_token(request.token)) {
    return malformed("request");
  }
  for (const std::string& key : request.keys) {
    if (Status good = Store::check_key(key); !good.ok()) return good;
  }
  return request;
}

Result<StoreResponse> parse_response(std::string_view body) {
  WireReader reader(body);
  StoreResponse response;
  const auto kind = static_cast<StatusKind>(reader.number<uint8_t>());
  if (!reader.ok()) return malformed("response");
  if (kind != StatusKind::kOk) {
    if (kind != StatusKind::kDeviceFault && !is_sent_kind(kind)) return malformed("response");
    std::string message(reader.text(kMaxErrorTextBytes));
    if (!reader.is_done()) return malformed("response");
    response.status = received_status(kind, std::move(message));
    return response;
  }
  response.number = reader.number<int64_t>();
  const auto count = reader.number<uint32_t>();
  if (count > kMaxRequestKeys) return malformed("response");
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto exists = reader.number<uint8_t>();
    if (exists > 1) return malformed("response");
    response.values.emplace_back();
    if (exists == 1) response.values.back() = std::string(reader.text(Store::kMaxValueBytes));
  }
  if (!reader.is_done()) return malformed("response");
  return response;
}

uint32_t body_bytes(std::string_view header) { return WireReader(header).number<uint32_t>(); }

}  // namespace ashlar::symm
