// SPDX-License-Identifier: Apache-2.0
//
// Folders, redis://[user:password@]host[:port][/database], redis+unix://path; UCX.
#include "shmem/places.h"

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

constexpr std::string_view kRedis = "redis://";
constexpr std::string_view kRedisSocket = "redis+unix://";

#if ASHLAR_HAS_REDIS

template <typename Number>
bool read_number(std::string_view digits, Number& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

// What is behind the last `mark`, which is taken off.
std::string_view take_behind(std::string_view& rest, char mark) {
  const size_t at = rest.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = rest.substr(at + 1);
  rest = rest.substr(0, at);
  return behind;
}

// The password is in the address, so that sentences do not repeat it.
Result<symm::RedisOptions> redis_options(std::string_view address) {
  symm::RedisOptions options;
  if (address.starts_with(kRedisSocket)) {
    options.unix_socket = address.substr(kRedisSocket.size());
    return options;
  }
  std::string_view rest = address.substr(kRedis.size());
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
  if (const std::string_view database = take_behind(rest, '/');
      !database.empty() && !read_number(database, options.database)) {
    return Status::invalid_argument(
        text("ASHLAR_SHMEM_STORE: \"", database, "\" is no number of a database"));
  }
  const bool is_bracketed = rest.ends_with(']');  // an address of IPv6 has colons of its own
  if (const std::string_view port = is_bracketed ? std::string_view() : take_behind(rest, ':');
      !port.empty() && !read_number(port, options.port)) {
    return Status::invalid_argument(text("ASHLAR_SHMEM_STORE: \"", port, "\" is no port"));
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (!rest.empty()) options.host = rest;
  return options;
}

#endif

}  // namespace

Result<std::shared_ptr<symm::Store>> open_store(const ShmemSettings& settings) {
  if (settings.store.empty()) return symm::make_memory_store();
  if (!settings.store.starts_with(kRedis) && !settings.store.starts_with(kRedisSocket)) {
    return symm::open_file_store(settings.store);
  }
#if ASHLAR_HAS_REDIS
  const Result<symm::RedisOptions> options = redis_options(settings.store);
  if (!options.ok()) return options.status();
  return symm::open_redis_store(*options, Deadline::of_timeout(settings.timeout));
#else
  return Status::unsupported(
      "ASHLAR_SHMEM_STORE is in Redis, which this library was built without: install hiredis and "
      "build it anew, or use a folder");
#endif
}

Result<std::shared_ptr<symm::Transport>> open_transport(const ShmemSettings& settings) {
  if (settings.transport == ShmemSettings::Way::kNone) return std::shared_ptr<symm::Transport>();
#if ASHLAR_HAS_UCX
  return symm::open_ucx_transport({});
#else
  return Status::unsupported(
      "ASHLAR_SHMEM_TRANSPORT is ucx, which this library was built without: install UCX and build "
      "it anew, or set it to none if all PEs are on one machine");
#endif
}

}  // namespace ashlar::shmem
