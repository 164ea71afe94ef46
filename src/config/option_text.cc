// SPDX-License-Identifier: Apache-2.0
//
// A single-pass parser that reports the first error.
#include "config/option_text.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr std::string_view kSeparators = ",:[]";
constexpr std::string_view kWhitespace = " \t\n\v\f\r";
constexpr size_t kMaxExcerptBytes = 80;

std::string_view trim(std::string_view word) {
  const size_t begin = word.find_first_not_of(kWhitespace);
  if (begin == std::string_view::npos) return {};
  return word.substr(begin, word.find_last_not_of(kWhitespace) + 1 - begin);
}

class OptionParser {
 public:
  explicit OptionParser(std::string_view text) : unread_(trim(text)) {}

  bool at_end() const { return unread_.empty(); }
  Result<OptionAssignment> parse_assignment();
  // Consumes the comma between two assignments. Fails unless the text ends, or a comma and more
  // text follow.
  Status parse_comma_or_end(const OptionAssignment& before);

 private:
  // Consumes and returns the text before the next separator, which may be empty.
  std::string_view parse_word();
  // If the separator comes next, consumes it and returns true.
  bool take(char separator);
  Status parse_list(OptionAssignment& assignment);
  Result<ListEntry> parse_entry(std::string_view option);
  Status missing_value(std::string_view option) const;
  // Describes the text at the current position, for messages.
  std::string describe_next() const;

  std::string_view unread_;  // the text that is not parsed yet, trimmed
};

Result<OptionAssignment> OptionParser::parse_assignment() {
  OptionAssignment assignment;
  assignment.name = parse_word();
  if (assignment.name.empty()) {
    return Status::invalid_argument(
        text("an option is missing before ", describe_next(), " (expected name:value)"));
  }
  if (!take(':')) return missing_value(assignment.name);
  const std::string_view from_value = unread_;
  if (take('[')) {
    assignment.is_list = true;
    if (Status status = parse_list(assignment); !status.ok()) return status;
    assignment.value = trim(from_value.substr(0, from_value.size() - unread_.size()));
    return assignment;
  }
  assignment.value = parse_word();
  if (assignment.value.empty()) return missing_value(assignment.name);
  return assignment;
}

Status OptionParser::missing_value(std::string_view option) const {
  return Status::invalid_argument(text(excerpt(option), ": a value is missing before ",
                                       describe_next(), " (expected name:value)"));
}

Status OptionParser::parse_comma_or_end(const OptionAssignment& before) {
  if (at_end()) return Status();
  if (!take(',')) {
    return Status::invalid_argument(text(excerpt(before.name), ": ", in_quotes(before.value),
                                         " is followed by ", describe_next(),
                                         " (expected a comma or the end)"));
  }
  if (!at_end()) return Status();
  return Status::invalid_argument(
      text(excerpt(before.name), ": ", in_quotes(before.value),
           " is followed by a comma and the end (expected another name:value)"));
}

Status OptionParser::parse_list(OptionAssignment& assignment) {
  if (take(']')) return Status();
  while (true) {
    Result<ListEntry> entry = parse_entry(assignment.name);
    if (!entry.ok()) return entry.status();
    assignment.entries.push_back(*entry);
    if (take(']')) return Status();
    if (take(',')) continue;
    return Status::invalid_argument(text(excerpt(assignment.name), ": in the list, ",
                                         in_quotes(entry->value), " is followed by ",
                                         describe_next(), " (expected a comma or ])"));
  }
}

Result<ListEntry> OptionParser::parse_entry(std::string_view option) {
  ListEntry entry;
  entry.name = parse_word();
  if (entry.name.empty()) {
    return Status::invalid_argument(text(excerpt(option),
                                         ": in the list, an entry is missing before ",
                                         describe_next(), " (expected name:value)"));
  }
  if (take(':')) entry.value = parse_word();
  if (!entry.value.empty()) return entry;
  return Status::invalid_argument(text(excerpt(option), ": in the list, ", in_quotes(entry.name),
                                       " is followed by ", describe_next(),
                                       " (expected name:value)"));
}

std::string_view OptionParser::parse_word() {
  const size_t end = std::min(unread_.find_first_of(kSeparators), unread_.size());
  const std::string_view word = trim(unread_.substr(0, end));
  unread_ = trim(unread_.substr(end));
  return word;
}

bool OptionParser::take(char separator) {
  if (!unread_.starts_with(separator)) return false;
  unread_ = trim(unread_.substr(1));
  return true;
}

std::string OptionParser::describe_next() const {
  return at_end() ? "the end" : in_quotes(unread_);
}

}  // namespace

Result<std::vector<OptionAssignment>> parse_option_text(std::string_view given) {
  std::vector<OptionAssignment> assignments;
  OptionParser parser(given);
  while (!parser.at_end()) {
    Result<OptionAssignment> assignment = parser.parse_assignment();
    if (!assignment.ok()) return assignment.status();
    if (Status status = parser.parse_comma_or_end(*assignment); !status.ok()) return status;
    assignments.push_back(*std::move(assignment));
  }
  return assignments;
}

std::string excerpt(std::string_view given) {
  size_t end = std::min(given.size(), kMaxExcerptBytes);
  // Do not cut inside a UTF-8 character: its continuation bytes are 10xxxxxx.
  while (end < given.size() && end > 0 && (given[end] & 0xC0) == 0x80) --end;
  std::string shown = text(given.substr(0, end), end < given.size() ? "…" : "");
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return shown;
}

std::string in_quotes(std::string_view given) { return text('"', excerpt(given), '"'); }

}  // namespace ashlar
