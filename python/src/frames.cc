// SPDX-License-Identifier: Apache-2.0
//
// Reads the Python frames of the calling thread. Takes the GIL for this, because allocating threads
// have released it. Stores the description of each source line once.
#include "frames.h"

#include <pybind11/pybind11.h>

#include <frameobject.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gil.h"
#include "texts.h"

namespace ashlar::python {
namespace {

// Provides Python frames. A word (see FrameProvider) is an index into `lines_`, plus one; 0 means
// that there is no description.
class PythonFrames final : public FrameProvider {
 public:
  size_t gather(std::span<uint64_t> frames) override {
    size_t count = 0;
    with_gil([&] {
      PyFrameObject* first = PyEval_GetFrame();  // borrowed
      auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(first));
      while (frame && count < frames.size()) {
        auto* here = reinterpret_cast<PyFrameObject*>(frame.ptr());
        frames[count++] = word_of(here);
        frame =
            py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(here)));
      }
    });
    return count;
  }

  void keep(uint64_t) override {}  // lines_ keeps the descriptions of all words

  Frame describe(uint64_t word) override {
    MutexLock lock(mutex_);
    return word == 0 || word > lines_.size() ? Frame{} : lines_[word - 1];
  }

 private:
  using CodeLine = std::pair<const PyCodeObject*, int>;
  using Line = std::tuple<std::string, std::string, int>;  // file, name, number

  // Limits for programs that generate code. A cached code line keeps its code object alive; when
  // the cache is full, it is cleared. Frames on lines beyond kMaxLines have no description.
  static constexpr size_t kMaxCodeLines = size_t{1} << 14;
  static constexpr size_t kMaxLines = size_t{1} << 20;

  uint64_t word_of(PyFrameObject* frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    auto held = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(code));
    const int line = PyFrame_GetLineNumber(frame);
    {
      MutexLock lock(mutex_);
      const auto known = code_lines_.find({code, line});
      if (known != code_lines_.end()) return known->second.word;
    }
    Frame described;
    // Python 3.9 and 3.10 have no qualified name.
    const char* const name = py::hasattr(held, "co_qualname") ? "co_qualname" : "co_name";
    described.name = encode_utf8(held.attr(name));
    described.filename = encode_utf8(held.attr("co_filename"));
    described.line = line;
    std::map<CodeLine, CachedLine>
        evicted;  // destroyed without the lock: destroying code objects may run Python code
    MutexLock lock(mutex_);
    const uint64_t word = word_of_line(std::move(described));
    if (code_lines_.size() >= kMaxCodeLines) evicted.swap(code_lines_);
    code_lines_.try_emplace(CodeLine(code, line), CachedLine{word, std::move(held)});
    return word;
  }

  uint64_t word_of_line(Frame described) ASHLAR_REQUIRES(mutex_) {
    const Line line(described.filename, described.name, described.line);
    const auto known = words_.find(line);
    if (known != words_.end()) return known->second;
    if (lines_.size() >= kMaxLines) return 0;
    lines_.push_back(std::move(described));
    words_[line] = lines_.size();
    return lines_.size();
  }

  // The word of a code line, and the code object, which is kept alive so that its address is not
  // reused.
  struct CachedLine {
    uint64_t word = 0;
    py::object code{};
  };

  Mutex mutex_;
  std::vector<Frame> lines_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Line, uint64_t> words_ ASHLAR_GUARDED_BY(mutex_);
  std::map<CodeLine, CachedLine> code_lines_
      ASHLAR_GUARDED_BY(mutex_);  // modified only with the GIL held
};

// Returns the provider of this process. It is never destroyed, because allocators may outlive the
// interpreter. Guarded by the GIL.
std::shared_ptr<FrameProvider>& process_frames() {
  static auto* const provider = std::make_unique<std::shared_ptr<FrameProvider>>().release();
  return *provider;
}

}  // namespace

std::shared_ptr<FrameProvider> python_frames() {
  std::shared_ptr<FrameProvider>& provider = process_frames();
  if (provider == nullptr) provider = std::make_shared<PythonFrames>();
  return provider;
}

// Overwrites the pointer without destroying it, which leaks the parent's table.
void reset_python_frames() { std::construct_at(&process_frames()); }

}  // namespace ashlar::python
