// SPDX-License-Identifier: Apache-2.0
//
// Resolves the file first, then the place in it.
#include "analysis/whatif/name_resolver.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analysis/whatif/python_outline.h"
#include "base/text.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

constexpr size_t kMaxNamesListed = 8;

std::string_view last_part(std::string_view path, std::string_view separators) {
  const size_t at = path.find_last_of(separators);
  return at == std::string_view::npos ? path : path.substr(at + 1);
}

// Whether `end` is the whole path or its last components.
bool ends_with_path(std::string_view path, std::string_view end) {
  if (path.size() < end.size()) return false;
  const bool is_same =
      std::equal(end.begin(), end.end(), path.end() - static_cast<std::ptrdiff_t>(end.size()),
                 [](char a, char b) {
                   const auto slash = [](char c) { return c == '\\' ? '/' : c; };
                   return slash(a) == slash(b);
                 });
  if (!is_same || path.size() == end.size()) return is_same;
  const char before = path[path.size() - end.size() - 1];
  return before == '/' || before == '\\';
}

template <typename Names>
std::string list_of(const Names& names) {
  std::string list;
  size_t count = 0;
  for (const auto& each : names) {
    if (++count > kMaxNamesListed) return list + ", ...";
    list += text(list.empty() ? "" : ", ", each);
  }
  return list;
}

Status no_match(const SelectorTerm& term, const std::string& hint) {
  return Status::invalid_argument(text("\"", term.text, "\" matches nothing: ", hint));
}

Status ambiguous(const SelectorTerm& term, const std::string& candidates) {
  return Status::invalid_argument(text("\"", term.text, "\" is ambiguous: ", candidates));
}

}  // namespace

NameResolver::NameResolver(const DeviceRecording& recording, const StackPaths& paths,
                           const NameSources& sources)
    : recording_(recording),
      frames_(recording.snapshot().tables.frames),
      paths_(paths),
      sources_(sources) {}

Result<FrameSet> NameResolver::frames_of(const SelectorTerm& term) const {
  if (term.kind == SelectorTerm::Kind::kFrame) return frames_of_expression(term);
  const Result<std::string> file = file_of(term);
  if (!file.ok()) return file.status();
  if (term.kind == SelectorTerm::Kind::kFunction) return frames_of_function(term, *file);
  return frames_of_lines(term, *file);
}

Result<Selection> NameResolver::selection_of(const Selector& selector) const {
  std::vector<uint32_t> failures;
  for (uint32_t i = 0; i < recording_.trace().size(); ++i) {
    if (recording_.trace()[i].action == TraceAction::kOom) failures.push_back(i);
  }
  std::vector<Request> requests = allocated_requests();
  const size_t allocation_count = requests.size();
  const std::vector<Request> failed = failed_requests(failures);
  requests.insert(requests.end(), failed.begin(), failed.end());

  bool has_category = false;
  for (const SelectorTerm& term : selector.terms) {
    has_category = has_category || term.kind == SelectorTerm::Kind::kCategory;
    if (Status narrowed = narrow(requests, term); !narrowed.ok()) return narrowed;
  }
  Selection selection;
  bool is_empty = true;
  for (size_t i = 0; i < requests.size(); ++i) {
    // A library allocates a workspace under the line that needs it first, and keeps it for others.
    const bool is_excluded = !has_category && requests[i].category == Category::kWorkspaces;
    const bool is_selected = requests[i].is_selected && !is_excluded;
    is_empty = is_empty && !is_selected;
    if (i < allocation_count) {
      selection.allocations.push_back(is_selected);
    } else if (is_selected) {
      selection.failures.push_back(failures[i - allocation_count]);
    }
  }
  if (!is_empty) return selection;
  const bool is_category =
      selector.terms.size() == 1 && selector.terms[0].kind == SelectorTerm::Kind::kCategory;
  return Status::invalid_argument(
      text("\"", selector.text, "\" matches no allocation",
           is_category ? "; \"ashlar report\" lists the categories of the recording" : ""));
}

std::vector<NameResolver::Request> NameResolver::allocated_requests() const {
  const std::vector<Allocation>& all = recording_.allocations().all;
  const Categories& categories = training_of(recording_).categories;
  std::vector<Request> requests;
  requests.reserve(all.size());
  for (uint32_t i = 0; i < all.size(); ++i) {
    requests.push_back({.stack = all[i].stack, .category = categories.of(i)});
  }
  return requests;
}

std::vector<NameResolver::Request> NameResolver::failed_requests(
    const std::vector<uint32_t>& failures) const {
  const TrainingAnalysis& training = training_of(recording_);
  std::map<StackId, std::optional<Category>> by_stack;
  for (const uint32_t entry : failures) by_stack[recording_.trace()[entry].stack];
  const std::vector<Allocation>& all = recording_.allocations().all;
  for (uint32_t i = 0; i < all.size() && !by_stack.empty(); ++i) {
    const auto known = by_stack.find(all[i].stack);
    if (known != by_stack.end()) known->second = training.categories.of(i);
  }
  std::vector<Request> requests;
  for (const uint32_t entry : failures) {
    const Iterations& iterations = training.iterations;
    const Phase phase = iterations.phases[iterations.phase_index_at(entry)].phase;
    const Category other = phase == Phase::kForward ? Category::kActivations : Category::kUnknown;
    const StackId stack = recording_.trace()[entry].stack;
    requests.push_back({.stack = stack, .category = by_stack[stack].value_or(other)});
  }
  return requests;
}

// Deselects the requests that a term does not match.
Status NameResolver::narrow(std::vector<Request>& requests, const SelectorTerm& term) const {
  if (term.kind == SelectorTerm::Kind::kCategory) {
    for (Request& each : requests) {
      if (each.category != term.category) each.is_selected = false;
    }
    return {};
  }
  const Result<FrameSet> frames = frames_of(term);
  if (!frames.ok()) return frames.status();
  std::map<StackId, bool> known;  // by stack, because many requests may share a deep stack
  for (Request& each : requests) {
    const auto [has_frame, is_new] = known.try_emplace(each.stack, false);
    if (is_new) {
      const std::vector<uint32_t>& path = paths_.of(each.stack);
      has_frame->second =
          std::any_of(path.begin(), path.end(), [&](uint32_t frame) { return (*frames)[frame]; });
    }
    if (!has_frame->second) each.is_selected = false;
  }
  return {};
}

Result<std::string> NameResolver::file_of(const SelectorTerm& term) const {
  std::set<std::string> found;
  std::set<std::string> others;
  for (const Frame& frame : frames_) {
    if (frame.filename.empty()) continue;
    if (ends_with_path(frame.filename, term.file)) {
      found.insert(frame.filename);
    } else if (frame.filename.ends_with(".py")) {
      others.insert(std::string(last_part(frame.filename, "/\\")));
    }
  }
  if (found.size() == 1) return *found.begin();
  if (found.size() > 1) return ambiguous(term, "it is the end of " + list_of(found));
  if (others.empty()) return no_match(term, "the recording has no Python stacks");
  const std::vector<std::string_view> known(others.begin(), others.end());
  const std::optional<std::string_view> nearest = nearest_name(last_part(term.file, "/\\"), known);
  if (nearest) return no_match(term, text("no such file; did you mean ", *nearest, "?"));
  return no_match(term, "no such file; the recording has " + list_of(others));
}

Result<FrameSet> NameResolver::frames_of_lines(const SelectorTerm& term,
                                               const std::string& file) const {
  FrameSet found = select([&](const Frame& frame) {
    return frame.filename == file && term.first_line <= frame.line && frame.line <= term.last_line;
  });
  if (std::find(found.begin(), found.end(), true) == found.end()) {
    return no_match(term, nearest_lines(term, file));
  }
  return found;
}

// With the source, the lines of its definition identify a function. Without it, lines of one name
// belong to several functions if one calls another, or if another function is between them.
Result<FrameSet> NameResolver::frames_of_function(const SelectorTerm& term,
                                                  const std::string& file) const {
  if (sources_.folders == nullptr || sources_.folders->is_empty()) {
    return frames_of_name(term, file);
  }
  std::vector<RecordedLine> recorded;
  for (const Frame& frame : frames_) {
    if (frame.filename == file && frame.line > 0) recorded.push_back({frame.name, frame.line});
  }
  const Result<SourceText> source = sources_.folders->read(file, recorded);
  if (!source.ok()) {
    return Status::invalid_argument(
        text("\"", term.text, "\": no source for ", file,
             " in the folders of --source: ", source.status().message()));
  }
  std::vector<PythonFunction> found;
  std::vector<std::string> names;
  for (PythonFunction& each : python_functions(source->lines)) {
    names.push_back(each.qualified_name);
    const std::string_view name = each.qualified_name;
    const bool is_end =
        name.ends_with(term.name) &&
        (name.size() == term.name.size() || name[name.size() - term.name.size() - 1] == '.');
    if (is_end) found.push_back(std::move(each));
  }
  if (found.empty()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::optional<std::string_view> nearest = nearest_name(term.name, known);
    return no_match(term, nearest ? text("no such function; did you mean ", *nearest, "?")
                                  : text("no such function; the file has ", list_of(names)));
  }
  if (found.size() > 1) {
    std::vector<std::string> candidates;
    for (const PythonFunction& each : found) {
      candidates.push_back(
          text(each.qualified_name, " (", each.first_line, "-", each.last_line, ")"));
    }
    return ambiguous(term, list_of(candidates));
  }
  SelectorTerm lines = term;
  lines.first_line = found.front().first_line;
  lines.last_line = found.front().last_line;
  return frames_of_lines(lines, file);
}

Result<FrameSet> NameResolver::frames_of_name(const SelectorTerm& term,
                                              const std::string& file) const {
  FrameSet found =
      select([&](const Frame& frame) { return frame.filename == file && frame.name == term.name; });
  if (std::find(found.begin(), found.end(), true) != found.end()) {
    const std::optional<std::string> other = function_between(found, file, term.name);
    if (!is_nested(found) && !other) return found;
    const std::string reason = other ? text("there may be several functions of this name, because ",
                                            *other, " is between its lines ")
                                     : "functions of this name call each other, at lines ";
    return ambiguous(term, text(reason, lines_text(found), "; pass --source DIR and CLASS.",
                                term.name, ", or the lines of one function, FILE:FIRST-LAST"));
  }
  const std::string_view method = last_part(term.name, ".");
  const FrameSet methods = select([&](const Frame& frame) {
    return frame.filename == file && method != term.name && frame.name == method;
  });
  if (std::find(methods.begin(), methods.end(), true) == methods.end()) {
    return no_match(term, unknown_function(term, file));
  }
  return ambiguous(
      term,
      text("the stacks have \"", method, "\" without its class, at lines ", lines_text(methods),
           "; pass --source DIR, or the lines of the function, FILE:FIRST-LAST"));
}

Result<FrameSet> NameResolver::frames_of_expression(const SelectorTerm& term) const {
  if (!sources_.compile) {
    return Status::invalid_argument(
        text("\"", term.text, "\": expressions are not available (expected FILE:LINE)"));
  }
  const Result<FrameExpression> expression = sources_.compile(term.name);
  if (!expression.ok()) return expression.status();
  FrameSet found = select([&](const Frame& frame) {
    return (*expression)(text(frame.name, " ", frame.filename, ":", frame.line));
  });
  if (std::find(found.begin(), found.end(), true) == found.end()) {
    return no_match(term, "no frame, written \"function file:line\", matches the expression");
  }
  return found;
}

// Skips frame 0 of the tables, which means "none".
FrameSet NameResolver::select(const FrameFilter& matches) const {
  FrameSet found(frames_.size());
  for (size_t i = 1; i < frames_.size(); ++i) found[i] = matches(frames_[i]);
  return found;
}

// Whether a stack has two of the frames at different lines. At equal lines, the function calls
// itself.
bool NameResolver::is_nested(const FrameSet& frames) const {
  const size_t count = recording_.snapshot().tables.stacks.size();
  for (uint32_t i = 0; i < count; ++i) {
    int64_t line = -1;
    for (const uint32_t frame : paths_.of(StackId(i))) {
      if (!frames[frame]) continue;
      if (line >= 0 && line != frames_[frame].line) return true;
      line = frames_[frame].line;
    }
  }
  return false;
}

// Returns a named function with a line between the lines of the frames, as "name (line 30)".
std::optional<std::string> NameResolver::function_between(const FrameSet& frames,
                                                          const std::string& file,
                                                          const std::string& name) const {
  int64_t first = INT64_MAX;
  int64_t last = -1;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (!frames[i]) continue;
    first = std::min(first, frames_[i].line);
    last = std::max(last, frames_[i].line);
  }
  for (const Frame& each : frames_) {
    // Names like "<lambda>" and "<listcomp>" are parts of functions.
    const bool is_other = each.filename == file && each.name != name && !each.name.starts_with('<');
    if (!is_other || each.line <= first || each.line >= last) continue;
    return text(each.name, " (line ", each.line, ")");
  }
  return std::nullopt;
}

std::string NameResolver::lines_text(const FrameSet& frames) const {
  std::set<int64_t> lines;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i]) lines.insert(frames_[i].line);
  }
  return list_of(lines);
}

std::string NameResolver::nearest_lines(const SelectorTerm& term, const std::string& file) const {
  std::set<int64_t> lines;
  for (const Frame& frame : frames_) {
    if (frame.filename == file && frame.line > 0) lines.insert(frame.line);
  }
  std::vector<int64_t> nearest(lines.begin(), lines.end());
  const auto distance = [&](int64_t line) {
    return line < term.first_line ? term.first_line - line : line - term.last_line;
  };
  std::stable_sort(nearest.begin(), nearest.end(),
                   [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  if (nearest.size() > kMaxNamesListed) nearest.resize(kMaxNamesListed);
  return text("nothing was allocated or freed under it; the nearest lines are ",
              list_of(std::set<int64_t>(nearest.begin(), nearest.end())));
}

std::string NameResolver::unknown_function(const SelectorTerm& term,
                                           const std::string& file) const {
  std::set<std::string> names;
  for (const Frame& frame : frames_) {
    if (frame.filename == file) names.insert(frame.name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::optional<std::string_view> nearest = nearest_name(term.name, known);
  if (nearest) return text("no such function; did you mean ", *nearest, "?");
  return "no such function; the file has " + list_of(names);
}

}  // namespace ashlar
