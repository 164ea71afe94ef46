// SPDX-License-Identifier: Apache-2.0
//
// Messages on a connection between two ranks, and their serialized form. Both ends are on one
// machine but may run different versions of Ashlar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/wire.h"
#include "symm/channel/channel.h"
#include "symm/core/status_codec.h"

namespace ashlar::symm {

inline constexpr uint32_t kMessageMagic = 0x6c687361;  // "ashl"
inline constexpr uint16_t kMessageVersion = 1;
inline constexpr size_t kMaxMessageText = 4096;
inline constexpr size_t kMaxMessageBytes = kMaxMessageText + 64;

enum class ChannelMessageKind : uint16_t {
  kHello = 1,    // first message; the text is the token of the receiving process
  kMemory = 2,   // carries a descriptor, or none if the sender could not export one
  kClosing = 3,  // the sender leaves the group normally and closes the connection
  kFailed = 4,   // the sender closes the connection after a failure; the text is its reason
};

struct ChannelMessage {
  ChannelMessageKind kind = ChannelMessageKind::kHello;
  Token group{};
  uint64_t sequence = 0;  // in kMemory: the number of the exchange that the descriptor belongs to
  int from = 0;
  int to = 0;
  std::string text{};
};

inline std::string_view bytes_of(const Token& token) {
  return {reinterpret_cast<const char*>(token.data()), token.size()};
}

inline std::string to_bytes(const ChannelMessage& message) {
  WireWriter writer;
  writer.append_number(kMessageMagic).append_number(kMessageVersion);
  writer.append_number(static_cast<uint16_t>(message.kind)).append_raw(bytes_of(message.group));
  writer.append_number(message.sequence).append_number(message.from).append_number(message.to);
  return writer.append_text(message.text).take();
}

// Returns nothing if `bytes` is not a message of this version.
inline std::optional<ChannelMessage> parse_message(std::string_view bytes) {
  WireReader reader(bytes);
  ChannelMessage message;
  const bool has_magic = reader.number<uint32_t>() == kMessageMagic;
  const bool is_known = reader.number<uint16_t>() == kMessageVersion;
  message.kind = static_cast<ChannelMessageKind>(reader.number<uint16_t>());
  const std::string_view group = reader.raw(message.group.size());
  std::copy(group.begin(), group.end(), message.group.begin());
  message.sequence = reader.number<uint64_t>();
  message.from = reader.number<int>();
  message.to = reader.number<int>();
  message.text = reader.text(kMaxMessageText);
  if (!has_magic || !is_known || !reader.is_done()) return std::nullopt;
  return message;
}

// Returns why the sender closes the connection, or ok if the message is not kFailed.
inline Status failure_reason(const ChannelMessage& message) {
  return message.kind == ChannelMessageKind::kFailed ? parse_status(message.text) : Status();
}

}  // namespace ashlar::symm
