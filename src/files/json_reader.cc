// SPDX-License-Identifier: Apache-2.0
//
// A SAX handler for nlohmann's parser that fills the same ValueStore as the pickle reader.
#include "files/json_reader.h"

#include <nlohmann/json.hpp>

#include <istream>
#include <streambuf>
#include <vector>

#include "base/text.h"
#include "format/snapshot_builder.h"
#include "format/value_store.h"

namespace ashlar {
namespace {

using Json = nlohmann::json;

// Limits the memory for containers that are being read. Snapshots are nested at most ten deep.
constexpr size_t kMaxDepth = 1000;

// Provides the input as a stream buffer. Ends the input when the bytes since the parser's last
// callback exceed the limit, because the parser buffers a whole string or number before a callback.
class JsonBytes final : public std::streambuf {
 public:
  JsonBytes(ByteSource& source, const ReadLimits& limits)
      : source_(source), limits_(limits), buffer_(kBufferBytes) {}

  uint64_t offset() const { return base_ + static_cast<uint64_t>(gptr() - eback()); }
  void note_call() { last_call_ = offset(); }
  bool is_too_long() const { return offset() - last_call_ > limits_.value_bytes; }
  // Returns the error from the source, or ok if the source has not failed.
  const Status& failure() const { return failure_; }

 protected:
  int_type underflow() override {
    base_ = offset();
    setg(buffer_.data(), buffer_.data(), buffer_.data());
    if (!failure_.ok() || is_too_long()) return traits_type::eof();
    const Result<size_t> got = source_.read(buffer_);
    if (!got.ok()) failure_ = got.status();
    if (!got.ok() || *got == 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + *got);
    return traits_type::to_int_type(buffer_.front());
  }

 private:
  static constexpr size_t kBufferBytes = size_t{64} * 1024;

  ByteSource& source_;
  const ReadLimits limits_;
  std::vector<char> buffer_;
  uint64_t base_ = 0;  // offset of buffer_[0] in the input
  uint64_t last_call_ = 0;
  Status failure_;
};

class JsonValues final : public nlohmann::json_sax<Json> {
 public:
  JsonValues(JsonBytes& bytes, ValueStore& store) : bytes_(bytes), store_(store) {}

  Value root() const { return stack_.back(); }
  Status failure() const {
    if (!bytes_.failure().ok()) return bytes_.failure();
    return Status::format(text("JSON, byte ", bytes_.offset(), ": ", problem_));
  }

  bool null() override { return push({}); }
  bool boolean(bool value) override { return push(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return push(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return push(Value::unsigned_integer(value));
  }
  bool number_float(number_float_t value, const string_t& /*spelling*/) override {
    return push(Value::floating_point(value));
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
    // JSON shares no values, so nothing else refers to the values inside an adopted dict, and they
    // can be forgotten.
    if (store_.adopted(dict)) store_.forget_since(dict.index() + 1);
    return close();
  }
  bool end_array() override {
    const size_t first = open_.back();
    return check_store(store_.append(stack_[first - 1], items_from(first))) && close();
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (bytes_.is_too_long())
      return fail("a string exceeds the limit for values (expected a shorter one)");
    const std::string_view message = error.what();
    const size_t start = message.find("] ");  // skips the library's error number
    return fail(message.substr(start == std::string_view::npos ? 0 : start + 2));
  }

 private:
  bool open(ValueKind kind) {
    if (open_.size() == kMaxDepth) {
      return fail(text("values are nested deeper than ", kMaxDepth, " (expected less)"));
    }
    Value made;
    const bool is_added = kind == ValueKind::kDict ? store_.add_dict(made) : store_.add_list(made);
    if (!check_store(is_added) || !push(made)) return false;
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
  size_t charged_ = 0;        // size of stack_ up to which its memory is charged to the store
  std::vector<size_t> open_;  // index in stack_ of the first item of each open container
  std::string problem_;
};

}  // namespace

Result<Snapshot> read_snapshot_json(ByteSource& source, const ReadLimits& limits) {
  ValueStore store(limits);
  SnapshotBuilder builder(store);
  JsonBytes bytes(source, limits);
  JsonValues values(bytes, store);
  std::istream stream(&bytes);
  if (!Json::sax_parse(stream, &values)) return values.failure();
  return builder.build(values.root(), bytes.offset());
}

}  // namespace ashlar
