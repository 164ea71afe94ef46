// nlohmann's parser calls JsonValues as it goes; the values end up where those of a pickle do.
#include "files/json_reader.h"

#include <nlohmann/json.hpp>

#include <iterator>
#include <vector>

#include "base/text.h"
#include "format/byte_reader.h"
#include "format/snapshot_builder.h"
#include "format/value_store.h"

namespace ashlar {
namespace {

using Json = nlohmann::json;

// Nothing in a snapshot is deeper than ten.
constexpr size_t kMostDepth = 1000;
// The parser holds a string or number as a whole before it says anything.
constexpr uint64_t kLongestToken = uint64_t{64} << 20;

// The bytes as the parser wants them, and how many since its last call.
class JsonBytes {
 public:
  explicit JsonBytes(ByteSource& source) : reader_(source) { advance(); }

  bool has_ended() const { return has_ended_; }
  char current() const { return current_; }
  void advance() {
    const char* byte = is_too_long() ? nullptr : reader_.take(1);
    has_ended_ = byte == nullptr;
    if (!has_ended_) current_ = *byte;
  }
  void note_call() { last_call_ = reader_.offset(); }
  bool is_too_long() const { return reader_.offset() - last_call_ > kLongestToken; }
  const ByteReader& reader() const { return reader_; }

 private:
  ByteReader reader_;
  uint64_t last_call_ = 0;
  char current_ = 0;
  bool has_ended_ = false;
};

// Two of these are equal exactly when both are at the end.
class JsonIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit JsonIterator(JsonBytes* bytes) : bytes_(bytes) {}
  char operator*() const { return bytes_->current(); }
  JsonIterator& operator++() {
    bytes_->advance();
    return *this;
  }
  JsonIterator operator++(int) {
    JsonIterator before = *this;
    bytes_->advance();
    return before;
  }
  friend bool operator==(const JsonIterator& a, const JsonIterator& b) {
    return a.is_at_end() == b.is_at_end();
  }
  friend bool operator!=(const JsonIterator& a, const JsonIterator& b) { return !(a == b); }

 private:
  bool is_at_end() const { return bytes_ == nullptr || bytes_->has_ended(); }
  JsonBytes* bytes_;
};

class JsonValues final : public nlohmann::json_sax<Json> {
 public:
  JsonValues(JsonBytes& bytes, ValueStore& store) : bytes_(bytes), store_(store) {}

  Value root() const { return stack_.back(); }
  Status failure() const {
    if (!bytes_.reader().failure().ok()) return bytes_.reader().failure();
    return Status::format(text("JSON, byte ", bytes_.reader().offset(), ": ", problem_));
  }

  bool null() override { return push({}); }
  bool boolean(bool value) override { return push(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return push(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return push(Value::unsigned_integer(value));
  }
  bool number_float(number_float_t value, const string_t& /*spelling*/) override {
    return push(Value::real(value));
  }
  bool string(string_t& value) override {
    Value made;
    return check_store(store_.add_string(value, made)) && push(made);
  }
  bool key(string_t& value) override { return string(value); }
  bool binary(binary_t& /*value*/) override { return fail("binary data (expected text)"); }

  bool start_object(size_t /*count*/) override { return open(ValueKind::kDict); }
  bool start_array(size_t /*count*/) override { return open(ValueKind::kList); }
  bool end_object() override {
    const size_t first = open_.back();
    const Value dict = stack_[first - 1];
    if (!check_store(store_.set_items(dict, items_from(first)))) return false;
    // Nothing is shared in JSON: what an adopted dict was made of is in nobody's hands.
    if (store_.adopted(dict)) store_.forget_since(dict.index() + 1);
    return close();
  }
  bool end_array() override {
    const size_t first = open_.back();
    return check_store(store_.append(stack_[first - 1], items_from(first))) && close();
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (bytes_.is_too_long()) return fail("a string beyond 64 MiB (expected a shorter one)");
    const std::string_view message = error.what();
    const size_t start = message.find("] ");  // behind the library's own number of the error
    return fail(message.substr(start == std::string_view::npos ? 0 : start + 2));
  }

 private:
  bool open(ValueKind kind) {
    if (open_.size() == kMostDepth) {
      return fail(text("the lists are nested deeper than ", kMostDepth, " (expected less)"));
    }
    Value made;
    const bool has_room = kind == ValueKind::kDict ? store_.add_dict(made) : store_.add_list(made);
    if (!check_store(has_room) || !push(made)) return false;
    open_.push_back(stack_.size());
    return true;
  }
  bool close() {
    stack_.resize(open_.back());
    open_.pop_back();
    return true;
  }
  bool push(Value value) {
    bytes_.note_call();
    if (stack_.size() == charged_) {
      if (!check_store(store_.charge(kStackStep * sizeof(Value)))) return false;
      charged_ += kStackStep;
    }
    stack_.push_back(value);
    return true;
  }
  std::span<const Value> items_from(size_t first) const {
    return std::span<const Value>(stack_).subspan(first);
  }
  bool fail(std::string_view problem) {
    problem_ = problem;
    return false;
  }
  bool check_store(bool stored) { return stored || fail(store_.problem()); }

  static constexpr size_t kStackStep = 1024;

  JsonBytes& bytes_;
  ValueStore& store_;
  std::vector<Value> stack_;
  size_t charged_ = 0;        // values of the stack that the store counts
  std::vector<size_t> open_;  // where the items of the open containers start on the stack
  std::string problem_;
};

}  // namespace

Result<Snapshot> read_snapshot_json(ByteSource& source, const ReadLimits& limits) {
  ValueStore store(limits);
  SnapshotBuilder builder(store);
  JsonBytes bytes(source);
  JsonValues values(bytes, store);
  if (!Json::sax_parse(JsonIterator(&bytes), JsonIterator(nullptr), &values)) {
    return values.failure();
  }
  return builder.build(values.root(), bytes.reader().offset());
}

}  // namespace ashlar
