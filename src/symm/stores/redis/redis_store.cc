// SPDX-License-Identifier: Apache-2.0
//
// A store over hiredis: one command at a time on a connection, connections kept for the next call.
//
// A call that finds its connection broken makes a new one and asks again until its deadline. That
// is harmless for most. Additions leave a receipt in the server until their answer has arrived, or
// for as long as they may ask again; and an erasure whose answer was lost may say that nothing was
// there.
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
using Words = std::vector<std::string>;

constexpr milliseconds kLongestRest{50};
constexpr milliseconds kShortestCommand{20};       // to a server far away and back
constexpr std::chrono::hours kLongestCommand{24};  // a timeval must hold it
constexpr std::chrono::seconds kShortestReceipt{60};
constexpr std::chrono::hours kLongestReceipt{24};
constexpr std::chrono::seconds kReceiptPatience{1};

// KEYS: the counter, the receipt. ARGV: amount, time to live in ms (0: no end), life of a receipt.
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

// hiredis writes with write(2), and a server that is gone would end the program by SIGPIPE. It is
// blocked for this thread meanwhile, and taken away if it came.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipes() {
    const timespec at_once{};
    if (!was_pending_) {
      while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

// Never 0, which to hiredis is for ever; and whoever is late looks once, and is to see something.
timeval left_of(Deadline deadline) {
  const auto left = std::clamp<std::chrono::microseconds>(
      std::chrono::duration_cast<std::chrono::microseconds>(deadline.left()), kShortestCommand,
      kLongestCommand);
  return {left.count() / 1'000'000, left.count() % 1'000'000};
}

// As long as the addition may be asked for again, and a day at most: nobody waits longer, and a
// server is not to keep them for ever.
int64_t receipt_seconds(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline.left());
  return std::clamp<std::chrono::seconds>(left, kShortestReceipt, kLongestReceipt).count();
}

std::string_view text_of(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

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
  // The server's answer, which is no error; connects and asks again as long as there is time.
  Result<Reply> ask(const Words& words, Deadline deadline);

 private:
  Context take_idle() ASHLAR_EXCLUDES(mutex_);
  void put_back(Context context) ASHLAR_EXCLUDES(mutex_);
  // Null: `why` says why not. A refusal (a wrong password) is not tried again.
  template <typename T>
  struct Attempt {
    T got;
    std::string why{};
    bool is_refused = false;
  };
  Attempt<Context> connect(Deadline deadline) const;
  Attempt<Context> introduce(Context context, Deadline deadline) const;
  // An error is an answer.
  Attempt<Reply> ask_once(const Words& words, Deadline deadline);
  std::string address() const;

  const RedisOptions options_;
  const ForkGuard fork_guard_;
  Mutex mutex_;
  std::vector<Context> idle_ ASHLAR_GUARDED_BY(mutex_);
};

Reply send(redisContext& context, const Words& words) {
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const std::string& word : words) {
    starts.push_back(word.data());
    lengths.push_back(word.size());
  }
  const NoBrokenPipes quiet;
  return Reply(static_cast<redisReply*>(
      ::redisCommandArgv(&context, static_cast<int>(words.size()), starts.data(), lengths.data())));
}

Status RedisStore::set(std::string_view key, std::string_view value, milliseconds time_to_live,
                       Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  if (Status good = check_value(value); !good.ok()) return good;
  Words words = {"SET", std::string(key), std::string(value)};
  if (time_to_live.count() > 0) {
    words.emplace_back("PX");
    words.push_back(text(time_to_live.count()));
  }
  return ask(words, deadline).status();
}

Result<std::vector<std::optional<std::string>>> RedisStore::try_get(
    std::span<const std::string> keys, Deadline deadline) {
  std::vector<std::optional<std::string>> values;
  if (keys.empty()) return values;
  Words words = {"MGET"};
  for (const std::string& key : keys) {
    if (Status good = check_key(key); !good.ok()) return good;
    words.push_back(key);
  }
  const Result<Reply> reply = ask(words, deadline);
  if (!reply.ok()) return reply.status();
  const redisReply& answer = **reply;
  if (answer.type != REDIS_REPLY_ARRAY || answer.elements != keys.size()) {
    return Status::format(text(address(), " gave no answer to MGET that makes sense"));
  }
  for (size_t i = 0; i < answer.elements; ++i) {
    const redisReply& each = *answer.element[i];
    if (each.type == REDIS_REPLY_STRING && each.len > kMostValueBytes) {
      return Status::format(text("key ", keys[i], " of ", address(), " has ", each.len,
                                 " bytes: expected at most ", kMostValueBytes));
    }
    values.push_back(each.type == REDIS_REPLY_STRING ? std::string(text_of(each))
                                                     : std::optional<std::string>());
  }
  return values;
}

Result<int64_t> RedisStore::add(std::string_view key, int64_t amount, milliseconds time_to_live,
                                Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  uint64_t drawn[2] = {};
  if (::getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn)) {
    return Status::device_fault("getrandom", errno, "no random bytes for the name of a receipt");
  }
  const std::string receipt = text("ashlar/receipt/", std::hex, drawn[0], '-', drawn[1]);
  const std::string life = text(std::max<int64_t>(0, time_to_live.count()));
  const Words words = {"EVAL",  kAddScript,   "2",  std::string(key),
                       receipt, text(amount), life, text(receipt_seconds(deadline))};
  const Result<Reply> reply = ask(words, deadline);
  if (!reply.ok()) {
    const std::string& why = reply.status().message();
    if (why.find("not an integer") != std::string::npos) {
      return Status::format(text("key ", key, " is not a counter: its value is not a number"));
    }
    if (why.find("would overflow") != std::string::npos) {
      return Status::invalid_argument(
          text("counter ", key, ": adding ", amount, " does not fit 64 bits"));
    }
    return reply.status();
  }
  // The answer is here, and nobody is to wait for this; if it fails, the receipt goes by itself.
  const Deadline soon =
      Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kReceiptPatience));
  (void)ask_once({"DEL", receipt}, soon);
  int64_t sum = 0;
  const std::string_view digits = text_of(**reply);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), sum);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Status::format(text(address(), " gave no number for the counter ", key));
  }
  return sum;
}

Result<bool> RedisStore::erase(std::string_view key, Deadline deadline) {
  if (Status good = check_key(key); !good.ok()) return good;
  const Result<Reply> reply = ask({"DEL", std::string(key)}, deadline);
  if (!reply.ok()) return reply.status();
  return (*reply)->integer > 0;
}

Result<Reply> RedisStore::ask(const Words& words, Deadline deadline) {
  std::chrono::nanoseconds pause = milliseconds(1);
  for (;;) {
    Attempt<Reply> answer = ask_once(words, deadline);
    if (answer.is_refused) {
      return Status::device_fault("connect", 0, text(address(), " refused: ", answer.why));
    }
    if (answer.got != nullptr) {
      if (answer.got->type != REDIS_REPLY_ERROR) return std::move(answer.got);
      answer.why = text_of(*answer.got);
      // A server that starts reads its files first, and says so.
      if (!answer.why.starts_with("LOADING")) {
        return Status::device_fault(words.front(), 0, text(address(), " refused: ", answer.why));
      }
    }
    if (deadline.has_passed()) {
      return Status::timeout(text(address(), " was not reached before the deadline: ", answer.why));
    }
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestRest);
  }
}

RedisStore::Attempt<Reply> RedisStore::ask_once(const Words& words, Deadline deadline) {
  Attempt<Context> attempt{take_idle()};
  if (attempt.got == nullptr) attempt = connect(deadline);
  if (attempt.got == nullptr) return {nullptr, attempt.why, attempt.is_refused};
  ::redisSetTimeout(attempt.got.get(), left_of(deadline));
  Reply reply = send(*attempt.got, words);
  if (reply == nullptr) return {nullptr, attempt.got->errstr};
  put_back(std::move(attempt.got));
  return {std::move(reply)};
}

// A child of a fork has copies of its parent's connections, which are in the middle of anything,
// and maybe of a lock that nobody lets go of there: it makes a connection for each question.
Context RedisStore::take_idle() {
  if (!fork_guard_.in_creating_process()) return nullptr;
  MutexLock lock(mutex_);
  if (idle_.empty()) return nullptr;
  Context context = std::move(idle_.back());
  idle_.pop_back();
  return context;
}

void RedisStore::put_back(Context context) {
  if (!fork_guard_.in_creating_process()) return;
  MutexLock lock(mutex_);
  idle_.push_back(std::move(context));
}

RedisStore::Attempt<Context> RedisStore::connect(Deadline deadline) const {
  const timeval limit = left_of(deadline);
  Context context(options_.unix_socket.empty()
                      ? ::redisConnectWithTimeout(options_.host.c_str(), options_.port, limit)
                      : ::redisConnectUnixWithTimeout(options_.unix_socket.c_str(), limit));
  if (context == nullptr) return {nullptr, "no memory for a connection"};
  if (context->err != 0) return {nullptr, context->errstr};
  ::fcntl(context->fd, F_SETFD, FD_CLOEXEC);
  return introduce(std::move(context), deadline);
}

RedisStore::Attempt<Context> RedisStore::introduce(Context context, Deadline deadline) const {
  std::vector<Words> greetings;
  if (!options_.password.empty() && !options_.user.empty()) {
    greetings.push_back({"AUTH", options_.user, options_.password});
  } else if (!options_.password.empty()) {
    greetings.push_back({"AUTH", options_.password});
  }
  if (options_.database != 0) greetings.push_back({"SELECT", text(options_.database)});
  for (const Words& greeting : greetings) {
    ::redisSetTimeout(context.get(), left_of(deadline));
    const Reply reply = send(*context, greeting);
    if (reply == nullptr) return {nullptr, context->errstr};
    if (reply->type == REDIS_REPLY_ERROR) {
      const std::string said(text_of(*reply));
      return {nullptr, said, !said.starts_with("LOADING")};
    }
  }
  return {std::move(context)};
}

std::string RedisStore::address() const {
  if (!options_.unix_socket.empty()) return text("Redis at ", options_.unix_socket);
  return text("Redis at ", options_.host, ':', options_.port);
}

}  // namespace

Result<std::shared_ptr<Store>> open_redis_store(const RedisOptions& options, Deadline deadline) {
  auto store = std::make_shared<RedisStore>(options);
  const Result<Reply> pong = store->ask({"PING"}, deadline);
  if (!pong.ok()) return pong.status();
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace ashlar::symm
