// SPDX-License-Identifier: Apache-2.0
//
// Wraps bytes in an envelope, and validates an envelope before it unwraps it.
#include "symm/transports/ucx/envelope.h"

#include <ucp/api/ucp.h>

#include "base/text.h"
#include "base/wire.h"
#include "symm/core/hash.h"
#include "symm/transports/transport.h"

namespace ashlar::symm {
namespace {

constexpr std::string_view kMagic = "ashlUCX1";
constexpr size_t kHashBytes = 8;
// The number of zero bytes after the content. UCX may miss the end of an address list and read one
// more entry, which is smaller than this.
constexpr size_t kPaddingBytes = 4096;

struct UcxVersion {
  uint16_t major = 0;
  uint16_t minor = 0;
};

UcxVersion ucx_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  ::ucp_get_version(&major, &minor, &patch);
  return {static_cast<uint16_t>(major), static_cast<uint16_t>(minor)};
}

std::string_view name(EnvelopeKind kind) {
  return kind == EnvelopeKind::kAddress ? "address" : "key";
}

}  // namespace

std::string seal(const Envelope& envelope) {
  const UcxVersion release = ucx_version();
  std::string sealed =
      WireWriter()
          .append_raw(kMagic)
          .append_number(static_cast<uint8_t>(envelope.kind))
          .append_number(release.major)
          .append_number(release.minor)
          .append_number(envelope.base)
          .append_number(envelope.bytes)
          .append_text(std::string_view(envelope.content.data(), envelope.content.size()))
          .take();
  return sealed + WireWriter().append_number(hash_append(kHashSeed, sealed)).take();
}

Result<Envelope> open_envelope(EnvelopeKind kind, std::string_view sealed) {
  const size_t max_bytes =
      kind == EnvelopeKind::kAddress ? Transport::kMaxAddressBytes : Transport::kMaxKeyBytes;
  if (sealed.size() < kMagic.size() + kHashBytes || sealed.size() > max_bytes ||
      !sealed.starts_with(kMagic)) {
    return Status::format(text(sealed.size(), " bytes are not a UCX ", name(kind),
                               ". Do all ranks use the same transport?"));
  }
  const std::string_view hashed = sealed.substr(0, sealed.size() - kHashBytes);
  if (WireReader(sealed.substr(hashed.size())).number<uint64_t>() !=
      hash_append(kHashSeed, hashed)) {
    return Status::format(text("damaged UCX ", name(kind)));
  }
  WireReader reader(hashed);
  reader.raw(kMagic.size());
  Envelope opened;
  opened.kind = static_cast<EnvelopeKind>(reader.number<uint8_t>());
  const auto major = reader.number<uint16_t>();
  const auto minor = reader.number<uint16_t>();
  opened.base = reader.number<uint64_t>();
  opened.bytes = reader.number<uint64_t>();
  const std::string_view content = reader.text(max_bytes);
  if (!reader.is_done() || opened.kind != kind || content.empty()) {
    return Status::format(text("not a UCX ", name(kind)));
  }
  const UcxVersion own = ucx_version();
  if (major != own.major || minor != own.minor) {
    return Status::format(text("the ", name(kind), " is from UCX ", major, '.', minor,
                               ", but this process uses UCX ", own.major, '.', own.minor,
                               ". All ranks need the same version"));
  }
  if (kind == EnvelopeKind::kKey &&
      (opened.bytes == 0 || opened.base + opened.bytes < opened.base)) {
    return Status::format("UCX key with an impossible memory range");
  }
  opened.content_bytes = content.size();
  opened.content.assign(content.begin(), content.end());
  opened.content.resize(content.size() + kPaddingBytes);
  return opened;
}

}  // namespace ashlar::symm
