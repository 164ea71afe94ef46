// SPDX-License-Identifier: Apache-2.0
//
// Opens the store of a job. With PMIx and no configured store, rank 0 serves a TCP store on the
// loopback interface, with a random token, and publishes both through PMIx.
#include "symm/launch/find_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "ashlar/tcp_store.h"
#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "symm/launch/pmix_client.h"
#include "symm/stores/tcp/store_message.h"

namespace ashlar::symm {
namespace {

constexpr std::string_view kWhitespace = " \t\r\n";
constexpr const char* kPmixKey = "ashlar.store";

Status address_error(std::string_view given) {
  return Status::invalid_argument(
      text("ASHLAR_STORE is \"", given, "\" (expected a folder or tcp://host:port)"));
}

Result<std::string> token_of(const LaunchSettings& settings) {
  std::string token = settings.token;
  if (token.empty() && !settings.token_file.empty()) {
    Result<std::string> read = read_token_file(settings.token_file);
    if (!read.ok()) return read;
    token = *std::move(read);
  }
  if (is_valid_token(token)) return token;
  return Status::invalid_argument(
      text("the token of ASHLAR_STORE has ", token.size(), " characters (expected ", kMinTokenBytes,
           " to ", kMaxTokenBytes,
           " printable ones): set ASHLAR_STORE_TOKEN or ASHLAR_STORE_TOKEN_FILE"));
}

// Rank 0 serves the store, unless a server listens on the address or the address belongs to another
// machine.
Result<std::shared_ptr<Store>> open_tcp(const LaunchSettings& settings, int rank,
                                        Deadline deadline) {
  const Result<TcpAddress> address = parse_tcp_address(settings.store);
  if (!address.ok()) return address.status();
  const Result<std::string> token = token_of(settings);
  if (!token.ok()) return token.status();
  if (rank == 0) {
    Result<HostedStore> hosted =
        try_host_tcp_store({.host = address->host, .port = address->port, .token = *token});
    if (hosted.ok()) return std::move(hosted->store);
    const long code = hosted.status().code();
    if (code != EADDRINUSE && code != EADDRNOTAVAIL) return hosted.status();
  }
  return try_open_tcp_store({.host = address->host, .port = address->port, .token = *token},
                            deadline);
}

Result<std::shared_ptr<Store>> open_store(const LaunchSettings& settings, int rank,
                                          Deadline deadline) {
  if (settings.store.starts_with(kTcpScheme)) return open_tcp(settings, rank, deadline);
  if (settings.store.find("://") != std::string::npos) return address_error(settings.store);
  return try_open_file_store(settings.store);
}

// Rank 0 publishes the port and the token, separated by a space.
Result<std::shared_ptr<Store>> serve_over_pmix(PmixClient& pmix, Deadline deadline) {
  const Result<std::string> token = try_new_store_token();
  if (!token.ok()) return token.status();
  Result<HostedStore> hosted = try_host_tcp_store({.token = *token});
  if (!hosted.ok()) return hosted.status();
  if (Status failed = pmix.publish(kPmixKey, text(hosted->port, ' ', *token)); !failed.ok()) {
    return failed;
  }
  if (Status failed = pmix.fence(deadline); !failed.ok()) return failed;
  return std::move(hosted->store);
}

Result<std::shared_ptr<Store>> open_over_pmix(PmixClient& pmix, Deadline deadline) {
  if (Status failed = pmix.fence(deadline); !failed.ok()) return failed;
  const Result<std::string> published = pmix.get(0, kPmixKey);
  if (!published.ok()) return published.status();
  TcpStoreOptions options;
  const char* const end = published->data() + published->size();
  const auto [read_to, error] = std::from_chars(published->data(), end, options.port);
  if (error != std::errc() || read_to == end || *read_to != ' ') {
    return Status::format("rank 0 published a malformed store address through PMIx");
  }
  options.token.assign(read_to + 1, end);
  return try_open_tcp_store(options, deadline);
}

Result<Job> find_pmix_job(const LaunchSettings& settings, Deadline deadline) {
  const Result<std::unique_ptr<PmixClient>> pmix = PmixClient::connect();
  if (!pmix.ok()) return pmix.status();
  const Result<int> world_size = (*pmix)->world_size();
  if (!world_size.ok()) return world_size.status();
  Job job{.rank = (*pmix)->rank(), .world_size = *world_size, .name = settings.job};
  Result<std::shared_ptr<Store>> store = make_memory_store();
  if (!settings.store.empty()) {
    store = open_store(settings, job.rank, deadline);
  } else if (job.world_size > 1) {
    const Result<int> local_size = (*pmix)->local_size();
    if (!local_size.ok()) return local_size.status();
    if (*local_size != job.world_size) {
      return Status::invalid_argument(text(
          "the job has ", job.world_size, " ranks, ", *local_size,
          " of them on this machine: set ASHLAR_STORE to a folder or tcp://host:port that all of "
          "them can reach"));
    }
    store = job.rank == 0 ? serve_over_pmix(**pmix, deadline) : open_over_pmix(**pmix, deadline);
  }
  if (!store.ok()) return store.status();
  job.store = *std::move(store);
  return job;
}

}  // namespace

Result<Job> find_job(const LaunchSettings& settings, Deadline deadline) {
  const bool needs_pmix =
      !settings.rank || (settings.rank->world_size > 1 && settings.store.empty());
  if (needs_pmix && settings.has_pmix) return find_pmix_job(settings, deadline);
  const LaunchedRank own = settings.rank.value_or(LaunchedRank());
  Job job{.rank = own.rank, .world_size = own.world_size, .name = settings.job};
  if (settings.store.empty() && own.world_size > 1) {
    return Status::invalid_argument(
        text("there are ", own.world_size,
             " ranks, but no store: set ASHLAR_STORE to a folder or tcp://host:port, or use a "
             "launcher with PMIx or ashlar run"));
  }
  if (settings.store.empty()) {
    job.store = make_memory_store();
    return job;
  }
  Result<std::shared_ptr<Store>> store = open_store(settings, own.rank, deadline);
  if (!store.ok()) return store.status();
  job.store = *std::move(store);
  return job;
}

Result<TcpAddress> parse_tcp_address(std::string_view given) {
  std::string_view rest = given;
  if (!rest.starts_with(kTcpScheme)) return address_error(given);
  rest.remove_prefix(kTcpScheme.size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return address_error(given);
  TcpAddress address;
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port == 0) {
    return address_error(given);
  }
  std::string_view host = rest.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!is_bracketed && host.find_first_of(":[]") != std::string_view::npos)) {
    return address_error(given);
  }
  address.host = host;
  return address;
}

Result<std::string> read_token_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file.valid() || ::fstat(file.get(), &found) != 0) {
    return Status::device_fault(
        "open", errno, text("cannot read the token file ", path, ": ", std::strerror(errno)));
  }
  const bool is_own = found.st_uid == ::geteuid() || found.st_uid == 0;
  if (!S_ISREG(found.st_mode) || !is_own || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status::invalid_argument(text("the token file ", path,
                                         " must be a file that only its owner, this user, can "
                                         "access: use chmod 600"));
  }
  std::array<char, 2 * kMaxTokenBytes> bytes{};
  const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
  if (count < 0) {
    return Status::device_fault(
        "read", errno, text("cannot read the token file ", path, ": ", std::strerror(errno)));
  }
  std::string_view token(bytes.data(), static_cast<size_t>(count));
  token.remove_prefix(std::min(token.find_first_not_of(kWhitespace), token.size()));
  token = token.substr(0, token.find_last_not_of(kWhitespace) + 1);
  if (is_valid_token(token)) return std::string(token);
  return Status::invalid_argument(text("the token file ", path, " has no token: expected ",
                                       kMinTokenBytes, " to ", kMaxTokenBytes,
                                       " printable characters without spaces"));
}

}  // namespace ashlar::symm
