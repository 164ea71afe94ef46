// SPDX-License-Identifier: Apache-2.0
//
// A store is a folder, redis://[user:password@]host[:port][/database], or redis+unix://path. If the
// setting is empty, the store is memory of this process. The only transport is UCX.
#include "shmem/bootstrap.h"

#include <charconv>
#include <string>
#include <string_view>

#include "base/text.h"

#if ASHLAR_HAS_REDIS
#include "ashlar/redis_store.h"
#endif
#if ASHLAR_HAS_UCX
#include "ashlar/ucx_transport.h"
#endif

namespace ashlar::shmem {
namespace {

constexpr std::string_view kRedisScheme = "redis://";
constexpr std::string_view kRedisSocketScheme = "redis+unix://";

#if ASHLAR_HAS_REDIS

template <typename Number>
bool read_number(std::string_view digits, Number& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

// Removes the last `separator` and the text after it from `rest`. Returns the text after the
// separator.
std::string_view split_off_suffix(std::string_view& rest, char separator) {
  const size_t at = rest.rfind(separator);
  if (at == std::string_view::npos) return {};
  const std::string_view suffix = rest.substr(at + 1);
  rest = rest.substr(0, at);
  return suffix;
}

// Error messages must not repeat the whole address, since it may contain a password.
Result<symm::RedisOptions> redis_options(std::string_view address) {
  symm::RedisOptions options;
  if (address.starts_with(kRedisSocketScheme)) {
    options.unix_socket = address.substr(kRedisSocketScheme.size());
    return options;
  }
  std::string_view rest = address.substr(kRedisScheme.size());
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    std::string_view user = rest.substr(0, at);
    rest = rest.substr(at + 1);
    const size_t colon = user.find(':');
    if (colon == std::string_view::npos) {
      return Status::invalid_argument(
          "ASHLAR_SHMEM_STORE: expected redis://user:password@host:port");
    }
    options.user = user.substr(0, colon);
    options.password = user.substr(colon + 1);
  }
  if (const std::string_view database = split_off_suffix(rest, '/');
      !database.empty() && !read_number(database, options.database)) {
    return Status::invalid_argument(
        text("ASHLAR_SHMEM_STORE: database \"", database, "\" is not a number"));
  }
  const bool is_bracketed = rest.ends_with(']');  // an IPv6 address without a port
  if (const std::string_view port = is_bracketed ? std::string_view() : split_off_suffix(rest, ':');
      !port.empty() && !read_number(port, options.port)) {
    return Status::invalid_argument(
        text("ASHLAR_SHMEM_STORE: port \"", port, "\" is not a port number"));
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (!rest.empty()) options.host = rest;
  return options;
}

#endif

}  // namespace

Result<std::shared_ptr<symm::Store>> open_store(const ShmemSettings& settings) {
  if (settings.store.empty()) return symm::make_memory_store();
  if (!settings.store.starts_with(kRedisScheme) &&
      !settings.store.starts_with(kRedisSocketScheme)) {
    return symm::try_open_file_store(settings.store);
  }
#if ASHLAR_HAS_REDIS
  const Result<symm::RedisOptions> options = redis_options(settings.store);
  if (!options.ok()) return options.status();
  return symm::try_open_redis_store(*options, Deadline::of_timeout(settings.timeout));
#else
  return Status::unsupported(
      "ASHLAR_SHMEM_STORE names a Redis server, but this build has no Redis support. Install "
      "hiredis and rebuild, or use a folder");
#endif
}

Result<std::shared_ptr<symm::Transport>> open_transport(const ShmemSettings& settings) {
  if (settings.transport == ShmemSettings::TransportKind::kNone)
    return std::shared_ptr<symm::Transport>();
#if ASHLAR_HAS_UCX
  return symm::try_open_ucx_transport({});
#else
  return Status::unsupported(
      "ASHLAR_SHMEM_TRANSPORT is ucx, but this build has no UCX support. Install UCX and rebuild, "
      "or set it to none if all PEs run on one machine");
#endif
}

}  // namespace ashlar::shmem
