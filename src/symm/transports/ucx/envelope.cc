// SPDX-License-Identifier: Apache-2.0
//
// Writing, and reading without belief.
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
// More than UCX reads of one entry of a list whose end it missed.
constexpr size_t kZeroesBehind = 4096;

struct Release {
  uint16_t major = 0;
  uint16_t minor = 0;
};

Release own_release() {
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
  const Release release = own_release();
  std::string sealed = WireWriter()
                           .raw(kMagic)
                           .number(static_cast<uint8_t>(envelope.kind))
                           .number(release.major)
                           .number(release.minor)
                           .number(envelope.base)
                           .number(envelope.bytes)
                           .text(std::string_view(envelope.content.data(), envelope.content.size()))
                           .take();
  return sealed + WireWriter().number(hash_append(kHashSeed, sealed)).take();
}

Result<Envelope> open_envelope(EnvelopeKind kind, std::string_view sealed) {
  const size_t most =
      kind == EnvelopeKind::kAddress ? Transport::kMaxAddressBytes : Transport::kMaxKeyBytes;
  if (sealed.size() < kMagic.size() + kHashBytes || sealed.size() > most ||
      !sealed.starts_with(kMagic)) {
    return Status::format(text(sealed.size(), " bytes are no ", name(kind),
                               " of UCX: do all ranks use the same transport?"));
  }
  const std::string_view hashed = sealed.substr(0, sealed.size() - kHashBytes);
  if (WireReader(sealed.substr(hashed.size())).number<uint64_t>() !=
      hash_append(kHashSeed, hashed)) {
    return Status::format(text("this ", name(kind), " of UCX was damaged on its way"));
  }
  WireReader reader(hashed);
  reader.raw(kMagic.size());
  Envelope opened;
  opened.kind = static_cast<EnvelopeKind>(reader.number<uint8_t>());
  const auto major = reader.number<uint16_t>();
  const auto minor = reader.number<uint16_t>();
  opened.base = reader.number<uint64_t>();
  opened.bytes = reader.number<uint64_t>();
  const std::string_view content = reader.text(most);
  if (!reader.is_done() || opened.kind != kind || content.empty()) {
    return Status::format(text("these bytes are no ", name(kind), " of UCX"));
  }
  const Release own = own_release();
  if (major != own.major || minor != own.minor) {
    return Status::format(text("this ", name(kind), " is of UCX ", major, '.', minor,
                               ", and this process has UCX ", own.major, '.', own.minor,
                               ": all ranks need the same"));
  }
  if (kind == EnvelopeKind::kKey &&
      (opened.bytes == 0 || opened.base + opened.bytes < opened.base)) {
    return Status::format("this key of UCX is of memory that cannot be");
  }
  opened.content_bytes = content.size();
  opened.content.assign(content.begin(), content.end());
  opened.content.resize(content.size() + kZeroesBehind);
  return opened;
}

}  // namespace ashlar::symm
