// SPDX-License-Identifier: Apache-2.0
//
// A store on hiredis. Connections run one command at a time and are pooled.
//
// If a connection breaks, the command is retried on another one until the deadline. Most commands
// are idempotent. `add` stores a receipt on the server and erases it after the reply has arrived,
// so that a retry does not add twice. A retried `erase` may report that the key did not exist.
//
// The server is untrusted: the type and the content of every reply are checked. A connection that
// delivered an unexpected reply is closed, because its later replies may belong to other commands.
#include "ashlar/redis_store.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using CommandArguments = std::vector<std::string>;

constexpr milliseconds kMaxRetryPause{50};
constexpr milliseconds kMinCommandTimeout{20};        // more than a round trip in a data center
constexpr std::chrono::hours kMaxCommandTimeout{24};  // small enough for a timeval
constexpr std::chrono::seconds kMinReceiptLifetime{60};
constexpr std::chrono::hours kMaxReceiptLifetime{24};
constexpr std::chrono::seconds kReceiptEraseTimeout{1};
#if HIREDIS_MAJOR >= 1
// The maximum number of elements of an array in a reply, for which hiredis allocates memory when it
// reads the array's header. MGET returns one element per key: at most two per rank, and groups have
// at most 2^16 ranks. Earlier versions of hiredis have a fixed limit of 2^31.
constexpr long long kMaxReplyElements = 1 << 18;
#endif

// KEYS: counter, receipt. ARGV: amount, time to live in ms (0: none), lifetime of the receipt in s.
constexpr const char* kAddScript =
    "local done = redis.call('GET', KEYS[2]) "
    "if done then return done end "
    "redis.call('INCRBY', KEYS[1], ARGV[1]) "
    "if ARGV[2] == '0' then redis.call('PERSIST', KEYS[1]) "
    "else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
    "local sum = redis.call('GET', KEYS[1]) "
    "redis.call('SET', KEYS[2], sum, 'EX', ARGV[3]) "
    "return sum";

struct ContextDeleter {
  void operator()(redisContext* context) const { ::redisFree(context); }
};
struct ReplyDeleter {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, ContextDeleter>;
using Reply = std::unique_ptr<redisReply, ReplyDeleter>;

// Blocks SIGPIPE on the calling thread for the lifetime of the object and discards the signal if it
// was raised. Needed because hiredis uses write(2), which raises SIGPIPE on a closed connection.
class SigpipeBlocker {
 public:
  SigpipeBlocker() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocker() {
    const timespec no_wait{};
    if (!was_pending_) {
      while (::sigtimedwait(&pipe_, nullptr, &no_wait) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocker(const SigpipeBlocker&) = delete;
  SigpipeBlocker& operator=(const SigpipeBlocker&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

// Returns the time until the deadline, but at least kMinCommandTimeout, so that a call with an
// expired deadline makes one attempt. hiredis would interpret 0 as no timeout.
timeval command_timeout(Deadline deadline) {
  const auto left = std::clamp<std::chrono::microseconds>(
      std::chrono::duration_cast<std::chrono::microseconds>(deadline.left()), kMinCommandTimeout,
      kMaxCommandTimeout);
  return {left.count() / 1'000'000, left.count() % 1'000'000};
}

// Returns the lifetime of a receipt: the time left for retries of the addition, clamped to a range.
int64_t receipt_seconds(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline.left());
  return std::clamp<std::chrono::seconds>(left, kMinReceiptLifetime, kMaxReceiptLifetime).count();
}

std::string_view text_of(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

// The replies that a command may have, apart from errors.
enum class ReplyKind {
  kOk,      // the status OK
  kPong,    // the status PONG
  kErased,  // the integer 0 or 1
  kDigits,  // a string
  kValues,  // an array of strings and nils
};

bool is_of_kind(const redisReply& reply, ReplyKind kind) {
  switch (kind) {
    case ReplyKind::kOk: return reply.type == REDIS_REPLY_STATUS && text_of(reply) == "OK";
    case ReplyKind::kPong: return reply.type == REDIS_REPLY_STATUS && text_of(reply) == "PONG";
    case ReplyKind::kErased:
      return reply.type == REDIS_REPLY_INTEGER && (reply.integer == 0 || reply.integer == 1);
    case ReplyKind::kDigits: return reply.type == REDIS_REPLY_STRING;
    case ReplyKind::kValues: break;
  }
  if (reply.type != REDIS_REPLY_ARRAY) return false;
  const std::span elements(reply.element, reply.elements);
  return std::all_of(elements.begin(), elements.end(), [](const redisReply* each) {
    return each != nullptr && (each->type == REDIS_REPLY_STRING || each->type == REDIS_REPLY_NIL);
  });
}

// A command and the kind of its reply.
struct Command {
  CommandArguments arguments;
  ReplyKind reply = ReplyKind::kOk;
};

class RedisStore final : public Store {
 public:
  explicit RedisStore(RedisOptions options) : options_(std::move(options)) {}

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override;
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override;
  Result<bool> erase(std::string_view key, Deadline deadline) override;
  // Runs a command, reconnecting and retrying until the deadline. Error replies become statuses,
  // except LOADING, which is retried. Returns kFormat if the reply is of another kind than
  // `command.reply`.
  Result<Reply> run(const Command& command, Deadline deadline);

 private:
  Context take_connection() ASHLAR_EXCLUDES(mutex_);
  void return_connection(Context context) ASHLAR_EXCLUDES(mutex_);
  // `value` is null on failure. A permanent error, such as a wrong password, is not retried.
  template <typename T>
  struct Attempt {
    T value;
    std::string error{};
    bool is_permanent = false;
  };
  Attempt<Context> connect(Deadline deadline) const;
  Attempt<Context> authenticate(Context context, Deadline deadline) const;
  // Makes one attempt. Any reply from the server counts as a value, including an error and a
  // reply of an unexpected kind.
  Attempt<Reply> try_run(const Command& command, Deadline deadline);
  std::string address() const;

  const RedisOptions options_;
  const ForkGuard fork_guard_;
  Mutex mutex_;
  std::vector<Context> idle_connections_ ASHLAR_GUARDED_BY(mutex_);
};

Reply send(redisContext& context, const CommandArguments& arguments) {
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const std::string& argument : arguments) {
    starts.push_back(argument.data());
    lengths.push_back(argument.size());
  }
  const SigpipeBlocker blocker;
  return Reply(static_cast<redisReply*>(::redisCommandArgv(
      &context, static_cast<int>(arguments.size()), starts.data(), lengths.data())));
}

Status RedisStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                       Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  CommandArguments arguments = {"SET", std::string(key), std::string(value)};
  if (time_to_live.count() > 0) {
    arguments.emplace_back("PX");
    arguments.push_back(text(time_to_live.count()));
  }
  return run({arguments, ReplyKind::kOk}, deadline).status();
}

Result<std::vector<std::optional<std::string>>> RedisStore::try_get(
    std::span<const std::string> keys, Deadline deadline) {
  std::vector<std::optional<std::string>> values;
  if (keys.empty()) return values;
  CommandArguments arguments = {"MGET"};
  for (const std::string& key : keys) {
    if (Status good = check_key(key); !good.ok()) return good;
    arguments.push_back(key);
  }
  const Result<Reply> reply = run({arguments, ReplyKind::kValues}, deadline);
  if (!reply.ok()) return reply.status();
  if ((*reply)->elements != keys.size()) {
    return Status::format(text(address(), " sent ", (*reply)->elements, " values in reply to MGET ",
                               "with ", keys.size(), " keys"));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const redisReply& each = *(*reply)->element[i];
    if (each.type == REDIS_REPLY_STRING && each.len > kMaxValueBytes) {
      return Status::format(text("key ", keys[i], " of ", address(), " has ", each.len,
                                 " bytes: expected at most ", kMaxValueBytes));
    }
    values.push_back(each.type == REDIS_REPLY_STRING ? std::string(text_of(each))
                                                     : std::optional<std::string>());
  }
  return values;
}

Result<int64_t> RedisStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                                Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  uint64_t random[2] = {};
  if (::getrandom(random, sizeof(random), 0) != sizeof(random)) {
    return Status::device_fault("getrandom", errno, "cannot create a random receipt name");
  }
  const std::string receipt = text("ashlar/receipt/", std::hex, random[0], '-', random[1]);
  const std::string lifetime = text(std::max<int64_t>(0, time_to_live.count()));
  const CommandArguments arguments = {
      "EVAL",  kAddScript,   "2",      std::string(key),
      receipt, text(amount), lifetime, text(receipt_seconds(deadline))};
  const Result<Reply> reply = run({arguments, ReplyKind::kDigits}, deadline);
  if (!reply.ok()) {
    const std::string& error = reply.status().message();
    if (error.find("not an integer") != std::string::npos) {
      return Status::format(text("key ", key, " is not a counter: its value is not a number"));
    }
    if (error.find("would overflow") != std::string::npos) {
      return Status::invalid_argument(
          text("counter ", key, ": adding ", amount, " does not fit 64 bits"));
    }
    return reply.status();
  }
  // Erases the receipt. Best effort: if the command fails, the receipt expires.
  const Deadline erase_deadline =
      Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kReceiptEraseTimeout));
  (void)try_run({{"DEL", receipt}, ReplyKind::kErased}, erase_deadline);
  int64_t sum = 0;
  const std::string_view digits = text_of(**reply);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), sum);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Status::format(text(address(), " sent no number for counter ", key));
  }
  return sum;
}

Result<bool> RedisStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const Result<Reply> reply = run({{"DEL", std::string(key)}, ReplyKind::kErased}, deadline);
  if (!reply.ok()) return reply.status();
  return (*reply)->integer > 0;
}

Result<Reply> RedisStore::run(const Command& command, Deadline deadline) {
  std::chrono::nanoseconds pause = milliseconds(1);
  for (;;) {
    Attempt<Reply> attempt = try_run(command, deadline);
    if (attempt.is_permanent) {
      return Status::device_fault("connect", 0, text(address(), " refused: ", attempt.error));
    }
    if (attempt.value != nullptr) {
      if (is_of_kind(*attempt.value, command.reply)) return std::move(attempt.value);
      if (attempt.value->type != REDIS_REPLY_ERROR) {
        return Status::format(text(address(), " sent an unexpected reply to ",
                                   command.arguments.front(), ": check that it is a Redis server"));
      }
      attempt.error = text_of(*attempt.value);
      // A starting server replies LOADING until it has read its files.
      if (!attempt.error.starts_with("LOADING")) {
        return Status::device_fault(command.arguments.front(), 0,
                                    text(address(), " refused: ", attempt.error));
      }
    }
    if (deadline.has_passed()) {
      return Status::timeout(
          text(address(), " was not reached before the deadline: ", attempt.error));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxRetryPause);
  }
}

RedisStore::Attempt<Reply> RedisStore::try_run(const Command& command, Deadline deadline) {
  Attempt<Context> attempt{take_connection()};
  if (attempt.value == nullptr) attempt = connect(deadline);
  if (attempt.value == nullptr) return {nullptr, attempt.error, attempt.is_permanent};
  ::redisSetTimeout(attempt.value.get(), command_timeout(deadline));
  Reply reply = send(*attempt.value, command.arguments);
  if (reply == nullptr) return {nullptr, attempt.value->errstr};
  if (reply->type == REDIS_REPLY_ERROR || is_of_kind(*reply, command.reply)) {
    return_connection(std::move(attempt.value));
  }
  return {std::move(reply)};
}

// Returns null if no connection is idle. Also returns null in a forked child, which must not use
// its parent's connections and may have inherited a locked mutex, so the child opens a connection
// for each command.
Context RedisStore::take_connection() {
  if (!fork_guard_.in_creating_process()) return nullptr;
  MutexLock lock(mutex_);
  if (idle_connections_.empty()) return nullptr;
  Context context = std::move(idle_connections_.back());
  idle_connections_.pop_back();
  return context;
}

void RedisStore::return_connection(Context context) {
  if (!fork_guard_.in_creating_process()) return;
  MutexLock lock(mutex_);
  idle_connections_.push_back(std::move(context));
}

RedisStore::Attempt<Context> RedisStore::connect(Deadline deadline) const {
  const timeval limit = command_timeout(deadline);
  Context context(options_.unix_socket.empty()
                      ? ::redisConnectWithTimeout(options_.host.c_str(), options_.port, limit)
                      : ::redisConnectUnixWithTimeout(options_.unix_socket.c_str(), limit));
  if (context == nullptr) return {nullptr, "out of memory for a connection"};
  if (context->err != 0) return {nullptr, context->errstr};
  ::fcntl(context->fd, F_SETFD, FD_CLOEXEC);
#if HIREDIS_MAJOR >= 1
  context->reader->maxelements = kMaxReplyElements;
#endif
  return authenticate(std::move(context), deadline);
}

RedisStore::Attempt<Context> RedisStore::authenticate(Context context, Deadline deadline) const {
  std::vector<CommandArguments> commands;
  if (!options_.password.empty() && !options_.user.empty()) {
    commands.push_back({"AUTH", options_.user, options_.password});
  } else if (!options_.password.empty()) {
    commands.push_back({"AUTH", options_.password});
  }
  if (options_.database != 0) commands.push_back({"SELECT", text(options_.database)});
  for (const CommandArguments& command : commands) {
    ::redisSetTimeout(context.get(), command_timeout(deadline));
    const Reply reply = send(*context, command);
    if (reply == nullptr) return {nullptr, context->errstr};
    if (reply->type == REDIS_REPLY_ERROR) {
      const std::string error(text_of(*reply));
      return {nullptr, error, !error.starts_with("LOADING")};
    }
    if (!is_of_kind(*reply, ReplyKind::kOk)) {
      return {nullptr, text("unexpected reply to ", command.front()), true};
    }
  }
  return {std::move(context)};
}

std::string RedisStore::address() const {
  if (!options_.unix_socket.empty()) return text("Redis at ", options_.unix_socket);
  return text("Redis at ", options_.host, ':', options_.port);
}

}  // namespace

Result<std::shared_ptr<Store>> try_open_redis_store(const RedisOptions& options,
                                                    Deadline deadline) {
  auto store = std::make_shared<RedisStore>(options);
  const Result<Reply> pong = store->run({{"PING"}, ReplyKind::kPong}, deadline);
  if (!pong.ok()) return pong.status();
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace ashlar::symm
