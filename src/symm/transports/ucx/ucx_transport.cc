// SPDX-License-Identifier: Apache-2.0
//
// The Transport interface on UCX: checks arguments and deserializes addresses and keys.
// ucx_connection.cc calls UCX.
#include "ashlar/ucx_transport.h"

#include <cstring>

#include "base/fork_guard.h"
#include "base/text.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/envelope.h"
#include "symm/transports/ucx/ucx_connection.h"
#include "symm/transports/ucx/ucx_worker.h"

namespace ashlar::symm {
namespace {

class UcxRegion final : public Region {
 public:
  UcxRegion(std::shared_ptr<UcxWorker> worker, const RegionToken& token, std::string key)
      : worker_(std::move(worker)), token_(token), key_(std::move(key)) {}
  ~UcxRegion() override {
    if (worker_->in_owner_process()) worker_->unshare(token_);
  }

  const std::string& key() const override { return key_; }

 private:
  const std::shared_ptr<UcxWorker> worker_;  // shared with the transport
  const RegionToken token_;
  const std::string key_;
};

class UcxRemoteRegion final : public RemoteRegion {
 public:
  struct Range {
    uint64_t base = 0;
    uint64_t bytes = 0;
  };
  UcxRemoteRegion(std::shared_ptr<UcxConnection> connection, const RegionToken& token,
                  const Range& range)
      : connection_(std::move(connection)), token_(token), range_(range) {}

  size_t bytes() const override { return range_.bytes; }

  Status put(uint64_t offset, std::span<const std::byte> from, Deadline deadline) override {
    if (Status good = check(offset, from.size()); !good.ok() || from.empty()) return good;
    return connection_->put({token_, offset}, from, deadline);
  }
  Status get(uint64_t offset, std::span<std::byte> into, Deadline deadline) override {
    if (Status good = check(offset, into.size()); !good.ok() || into.empty()) return good;
    return connection_->get({token_, offset}, into, deadline);
  }
  Status post(const AtomicOp& call, Deadline deadline) override {
    if (call.kind == AtomicKind::kSwap || call.kind == AtomicKind::kCompareAndSwap) {
      return Status::invalid_argument("a swap returns the old value: use fetch");
    }
    if (Status good = check_word(call); !good.ok()) return good;
    return connection_->post(token_, call, deadline);
  }
  Result<uint64_t> fetch(const AtomicOp& call, Deadline deadline) override {
    if (Status good = check_word(call); !good.ok()) return good;
    return connection_->fetch(token_, call, deadline);
  }

 private:
  Status check(uint64_t offset, uint64_t wanted_bytes) const {
    if (offset <= range_.bytes && wanted_bytes <= range_.bytes - offset) return {};
    return Status::invalid_argument(
        text(wanted_bytes, " bytes at offset ", offset, ": the region has ", range_.bytes));
  }
  Status check_word(const AtomicOp& call) const {
    const auto word_bytes = static_cast<uint64_t>(call.word_bytes);
    if (call.word_bytes != WordBytes::k4 && call.word_bytes != WordBytes::k8) {
      return Status::invalid_argument(text("a word of ", word_bytes, " bytes: expected 4 or 8"));
    }
    if (Status good = check(call.offset, word_bytes); !good.ok()) return good;
    if ((range_.base + call.offset) % word_bytes == 0) return {};
    return Status::invalid_argument(text("a word of ", word_bytes, " bytes at offset ", call.offset,
                                         " is not aligned to its size"));
  }

  const std::shared_ptr<UcxConnection> connection_;  // shared with its endpoint
  const RegionToken token_;
  const Range range_;
};

class UcxEndpoint final : public Endpoint {
 public:
  explicit UcxEndpoint(std::shared_ptr<UcxConnection> connection)
      : connection_(std::move(connection)) {}

  Result<std::unique_ptr<RemoteRegion>> open(std::string_view key) override {
    if (Status good = connection_->check(); !good.ok()) return good;
    const Result<Envelope> opened = open_envelope(EnvelopeKind::kKey, key);
    if (!opened.ok()) return opened.status();
    RegionToken token{};
    if (opened->content_bytes != sizeof(token)) {
      return Status::format("not a UCX key");
    }
    std::memcpy(token.data(), opened->content.data(), sizeof(token));
    return std::unique_ptr<RemoteRegion>(std::make_unique<UcxRemoteRegion>(
        connection_, token, UcxRemoteRegion::Range{opened->base, opened->bytes}));
  }
  // Waits for the responses: messages may take several paths, so only responses prove that the
  // earlier calls have arrived.
  Status fence(Deadline deadline) override { return connection_->quiet(deadline); }
  Status quiet(Deadline deadline) override { return connection_->quiet(deadline); }
  void announce_close() override { connection_->announce_close(); }

 private:
  const std::shared_ptr<UcxConnection> connection_;  // shared with its regions
};

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(std::shared_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
  ~UcxTransport() override { worker_->end(); }

  Result<std::string> address() override {
    if (Status checked = worker_->check_owner_process(); !checked.ok()) return checked;
    return worker_->address();
  }

  Result<std::unique_ptr<Endpoint>> connect(std::string_view address, const RemotePeer& peer,
                                            Deadline deadline) override {
    if (Status checked = worker_->check_owner_process(); !checked.ok()) return checked;
    if (peer.failure == nullptr)
      return Status::invalid_argument("an endpoint needs its group's failure");
    const Result<Envelope> opened = open_envelope(EnvelopeKind::kAddress, address);
    if (!opened.ok()) return opened.status();
    Result<std::shared_ptr<UcxConnection>> connection =
        UcxConnection::open(worker_, *opened, peer, deadline);
    if (!connection.ok()) return connection.status();
    return std::unique_ptr<Endpoint>(std::make_unique<UcxEndpoint>(*std::move(connection)));
  }

  Result<std::unique_ptr<Region>> share(std::span<std::byte> memory) override;

  Status quiet(Deadline deadline) override {
    Status first = worker_->check_owner_process();
    if (!first.ok()) return first;
    for (const auto& connection : worker_->connections()) {
      Status flushed = connection->quiet(deadline);
      if (first.ok()) first = std::move(flushed);
    }
    return first;
  }
  void progress() override { worker_->progress(); }
  void end() override { worker_->end(); }

 private:
  const std::shared_ptr<UcxWorker> worker_;
};

Result<std::unique_ptr<Region>> UcxTransport::share(std::span<std::byte> memory) {
  if (Status checked = worker_->check_owner_process(); !checked.ok()) return checked;
  if (memory.empty())
    return Status::invalid_argument("no memory to share: expected at least 1 byte");
  const Result<RegionToken> token = worker_->share(memory);
  if (!token.ok()) return token.status();
  const auto* begin = reinterpret_cast<const char*>(token->data());
  std::string key = seal({EnvelopeKind::kKey,
                          reinterpret_cast<uintptr_t>(memory.data()),
                          memory.size(),
                          {begin, begin + sizeof(*token)}});
  return std::unique_ptr<Region>(std::make_unique<UcxRegion>(worker_, *token, std::move(key)));
}

}  // namespace

Result<std::shared_ptr<Transport>> try_open_ucx_transport(const UcxOptions& options) {
  Result<std::shared_ptr<UcxWorker>> worker = UcxWorker::open(options);
  if (!worker.ok()) return worker.status();
  return std::shared_ptr<Transport>(make_fork_guarded<UcxTransport>(*std::move(worker)));
}

}  // namespace ashlar::symm
