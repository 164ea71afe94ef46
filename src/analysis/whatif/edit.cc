// SPDX-License-Identifier: Apache-2.0
//
// Splits each value at its separators: ',' between terms, ':' before a place, '=' before a factor.
#include "analysis/whatif/edit.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

constexpr std::string_view kTermForms =
    "FILE:FUNCTION, FILE:FIRST-LAST, FILE:LINE, class:CATEGORY or frame:REGEX";

Status bad_value(std::string_view value, std::string_view expected) {
  return Status::invalid_argument(text("\"", value, "\" (expected ", expected, ")"));
}

std::optional<int64_t> parse_line(std::string_view digits) {
  int64_t line = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, line);
  if (error != std::errc() || stop != end || line < 1) return std::nullopt;
  return line;
}

Result<SelectorTerm> parse_category(std::string_view typed) {
  const std::string_view wanted = typed.substr(std::string_view("class:").size());
  std::vector<std::string> names;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    names.push_back(selector_name(static_cast<Category>(i)));
    if (names.back() == wanted) {
      SelectorTerm term;
      term.kind = SelectorTerm::Kind::kCategory;
      term.text = typed;
      term.category = static_cast<Category>(i);
      return term;
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (const std::optional<std::string_view> nearest = nearest_name(wanted, known)) {
    return Status::invalid_argument(
        text("unknown category \"", wanted, "\"; did you mean class:", *nearest, "?"));
  }
  std::string all;
  for (const std::string& each : names) all += text(all.empty() ? "" : ", ", each);
  return bad_value(typed, "one of the categories " + all);
}

// Splits at the last ':', because a Windows path begins with a drive, such as "C:".
Result<SelectorTerm> parse_place(std::string_view typed) {
  const size_t colon = typed.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == typed.size()) {
    return bad_value(typed, kTermForms);
  }
  SelectorTerm term;
  term.text = typed;
  term.file = typed.substr(0, colon);
  const std::string_view place = typed.substr(colon + 1);
  if (place.front() < '0' || place.front() > '9') {
    term.kind = SelectorTerm::Kind::kFunction;
    term.name = place;
    return term;
  }
  const size_t dash = place.find('-');
  const std::optional<int64_t> first = parse_line(place.substr(0, dash));
  if (!first) return bad_value(typed, kTermForms);
  term.kind = SelectorTerm::Kind::kLine;
  term.first_line = term.last_line = *first;
  if (dash == std::string_view::npos) return term;
  const std::string_view end = place.substr(dash + 1);
  const std::optional<int64_t> last = end.empty() ? std::nullopt : parse_line(end);
  if (!last || *last < *first) return bad_value(typed, "FILE:FIRST-LAST with FIRST <= LAST");
  term.kind = SelectorTerm::Kind::kLines;
  term.last_line = *last;
  return term;
}

Result<SelectorTerm> parse_term(std::string_view typed) {
  if (typed.starts_with("class:")) return parse_category(typed);
  if (!typed.starts_with("frame:")) return parse_place(typed);
  SelectorTerm term;
  term.kind = SelectorTerm::Kind::kFrame;
  term.text = typed;
  term.name = typed.substr(std::string_view("frame:").size());
  if (term.name.empty()) return bad_value(typed, "frame:REGEX");
  return term;
}

// A regular expression may contain commas, so a frame term extends to the end of the text.
Result<Selector> parse_selector(std::string_view typed) {
  Selector selector;
  selector.text = typed;
  while (true) {
    const size_t comma = typed.starts_with("frame:") ? std::string_view::npos : typed.find(',');
    Result<SelectorTerm> term = parse_term(typed.substr(0, comma));
    if (!term.ok()) return term.status();
    selector.terms.push_back(*std::move(term));
    if (comma == std::string_view::npos) return selector;
    typed.remove_prefix(comma + 1);
  }
}

Result<double> parse_factor(std::string_view typed) {
  constexpr double kMaxFactor = 1024;
  double factor = 0;
  const char* end = typed.data() + typed.size();
  const auto [stop, error] = std::from_chars(typed.data(), end, factor);
  const bool is_number = !typed.empty() && error == std::errc() && stop == end;
  if (is_number && factor > 0 && factor <= kMaxFactor) return factor;
  return bad_value(typed, "a factor above 0 and at most 1024, such as 0.5");
}

}  // namespace

std::string_view option_of(EditKind kind) {
  switch (kind) {
    case EditKind::kRecompute: return "--recompute";
    case EditKind::kOffload: return "--offload";
    case EditKind::kFree: return "--free";
    case EditKind::kDrop: return "--drop";
    case EditKind::kScale: return "--scale";
    case EditKind::kBatch: return "--batch";
    case EditKind::kKeepGradients: return "--keep-grads";
    case EditKind::kSetToNone: return "--set-to-none";
  }
  return "";
}

bool has_value(EditKind kind) {
  return kind != EditKind::kKeepGradients && kind != EditKind::kSetToNone;
}

std::string selector_name(Category category) {
  std::string word = name(category);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

Result<Edit> parse_edit(EditKind kind, std::string_view value) {
  Edit edit;
  edit.kind = kind;
  edit.text = option_of(kind);
  if (!has_value(kind)) return edit;
  edit.text += text(" ", value);
  const auto with_option = [kind](const Status& failure) {
    return Status::invalid_argument(text(option_of(kind), ": ", failure.message()));
  };
  std::string_view selected = value;
  if (kind == EditKind::kScale || kind == EditKind::kBatch) {
    const size_t equals = kind == EditKind::kBatch ? 0 : value.rfind('=');
    if (equals == std::string_view::npos) return with_option(bad_value(value, "GROUP=FACTOR"));
    const Result<double> factor =
        parse_factor(kind == EditKind::kBatch ? value : value.substr(equals + 1));
    if (!factor.ok()) return with_option(factor.status());
    edit.factor = *factor;
    if (kind == EditKind::kBatch) return edit;
    selected = value.substr(0, equals);
  }
  Result<Selector> selector = parse_selector(selected);
  if (!selector.ok()) return with_option(selector.status());
  edit.selector = *std::move(selector);
  const bool is_of_function = kind == EditKind::kRecompute || kind == EditKind::kOffload;
  if (is_of_function &&
      (edit.selector.terms.size() != 1 || !edit.selector.terms.front().is_function())) {
    return with_option(bad_value(value, "one function: FILE:FUNCTION or FILE:FIRST-LAST"));
  }
  return edit;
}

Status parse_at(std::string_view value, Edit& edit) {
  constexpr std::string_view kMoments = "end:FUNCTION, leave:FILE:LINE, next:FILE:LINE or step";
  FreeMoment moment;
  moment.text = value;
  if (value != "step") {
    const size_t colon = value.find(':');
    const std::string_view word = value.substr(0, colon);
    if (word == "end") {
      moment.kind = FreeMoment::Kind::kEndOfFunction;
    } else if (word == "leave") {
      moment.kind = FreeMoment::Kind::kLeaveLine;
    } else if (word == "next") {
      moment.kind = FreeMoment::Kind::kNextLine;
    } else {
      return Status::invalid_argument("--at: " + bad_value(value, kMoments).message());
    }
    if (colon == std::string_view::npos) {
      return Status::invalid_argument("--at: " + bad_value(value, kMoments).message());
    }
    Result<SelectorTerm> place = parse_place(value.substr(colon + 1));
    const bool needs_function = moment.kind == FreeMoment::Kind::kEndOfFunction;
    if (!place.ok() || place->is_function() != needs_function) {
      return Status::invalid_argument("--at: " + bad_value(value, kMoments).message());
    }
    moment.place = *std::move(place);
  }
  edit.at = std::move(moment);
  edit.text += text(" --at ", value);
  return {};
}

}  // namespace ashlar
