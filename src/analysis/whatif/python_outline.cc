// SPDX-License-Identifier: Apache-2.0
//
// Finds definitions by their indentation. Strings, brackets and continued lines are tracked, so
// that their contents are not mistaken for statements.
#include "analysis/whatif/python_outline.h"

#include <cctype>
#include <optional>
#include <string_view>

namespace ashlar {
namespace {

// Reads a file line by line and finds the lines that begin a statement.
class LineScanner {
 public:
  // Reads the next line. Returns whether a statement begins in it.
  bool next(std::string_view line) {
    const bool begins = quote_.empty() && depth_ == 0 && !is_continued_;
    is_continued_ = false;
    for (size_t i = 0; i < line.size();) i += read_at(line, i);
    // Only a string with triple quotes, or a backslash at its end, continues in the next line.
    if (quote_.size() == 1 && !is_continued_) quote_.clear();
    if (!begins) return false;
    const size_t code = line.find_first_not_of(" \t\f\r");
    return code != std::string_view::npos && line[code] != '#';
  }

 private:
  // Consumes one token (an escape sequence, a quotation mark, a comment or another character) and
  // returns its length.
  size_t read_at(std::string_view line, size_t at) {
    const char c = line[at];
    if (c == '\\') {
      if (at + 1 == line.size()) is_continued_ = quote_.size() <= 1;
      return 2;
    }
    if (!quote_.empty()) {
      if (!line.substr(at).starts_with(quote_)) return 1;
      const size_t length = quote_.size();
      quote_.clear();
      return length;
    }
    if (c == '#') return line.size() - at;
    if (c == '"' || c == '\'') {
      const std::string triple(3, c);
      quote_ = line.substr(at).starts_with(triple) ? triple : std::string(1, c);
      return quote_.size();
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    const bool closes = c == ')' || c == ']' || c == '}';
    if (closes && depth_ > 0) --depth_;
    return 1;
  }

  std::string quote_{};        // the end of the current string; empty: outside of strings
  size_t depth_ = 0;           // number of open brackets
  bool is_continued_ = false;  // the last line ended with a backslash
};

struct Definition {
  std::string name{};
  bool is_function = false;
};

std::optional<Definition> definition_in(std::string_view code) {
  bool is_function = false;
  for (const std::string_view word : {"async def ", "def ", "class "}) {
    if (!code.starts_with(word)) continue;
    is_function = word != "class ";
    code.remove_prefix(word.size());
    size_t length = 0;
    const auto is_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
    };
    while (length < code.size() && is_name(code[length])) ++length;
    if (length == 0) return std::nullopt;
    return Definition{std::string(code.substr(0, length)), is_function};
  }
  return std::nullopt;
}

size_t indentation_of(std::string_view line) {
  constexpr size_t kTab = 8;
  size_t columns = 0;
  for (const char c : line) {
    if (c == '\t') {
      columns = (columns / kTab + 1) * kTab;
    } else if (c == ' ') {
      ++columns;
    } else {
      break;
    }
  }
  return columns;
}

class OutlineReader {
 public:
  void read(std::string_view line) {
    ++number_;
    const bool has_text = line.find_first_not_of(" \t\f\r") != std::string_view::npos;
    if (scanner_.next(line)) {
      begin_statement(line);
    }
    if (has_text && !is_comment(line)) last_line_ = number_;
  }
  std::vector<PythonFunction> finish() {
    end_scopes(0);
    return std::move(functions_);
  }

 private:
  struct Scope {
    size_t indentation = 0;
    std::string name{};                // qualified
    std::optional<size_t> function{};  // index into functions_
  };

  static bool is_comment(std::string_view line) {
    return line[line.find_first_not_of(" \t\f\r")] == '#';
  }

  void begin_statement(std::string_view line) {
    const size_t indentation = indentation_of(line);
    end_scopes(indentation);
    const std::optional<Definition> found =
        definition_in(line.substr(line.find_first_not_of(" \t\f\r")));
    if (!found) return;
    const std::string outer = scopes_.empty() ? "" : scopes_.back().name + ".";
    scopes_.push_back({.indentation = indentation, .name = outer + found->name});
    if (!found->is_function) return;
    scopes_.back().function = functions_.size();
    functions_.push_back(
        {.qualified_name = scopes_.back().name, .first_line = number_, .last_line = number_});
  }

  // Ends the definitions whose bodies do not contain a statement with this indentation.
  void end_scopes(size_t indentation) {
    while (!scopes_.empty() && scopes_.back().indentation >= indentation) {
      if (scopes_.back().function) functions_[*scopes_.back().function].last_line = last_line_;
      scopes_.pop_back();
    }
  }

  LineScanner scanner_;
  std::vector<Scope> scopes_;
  std::vector<PythonFunction> functions_;
  int64_t number_ = 0;
  int64_t last_line_ = 0;  // the last line so far that is neither empty nor a comment
};

}  // namespace

std::vector<PythonFunction> python_functions(const std::vector<std::string>& lines) {
  OutlineReader reader;
  for (const std::string& line : lines) reader.read(line);
  return reader.finish();
}

}  // namespace ashlar
