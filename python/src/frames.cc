// SPDX-License-Identifier: Apache-2.0
//
// Walks Python frames with the GIL, which the allocating thread has released. Each line is
// described once.
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

// A word is an index into the table, plus one.
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

  void keep(uint64_t) override {}  // all words are kept

  Frame describe(uint64_t word) override {
    MutexLock lock(mutex_);
    return word == 0 || word > lines_.size() ? Frame{} : lines_[word - 1];
  }

 private:
  using Place = std::pair<const PyCodeObject*, int>;
  using Line = std::tuple<std::string, std::string, int>;  // file, name, number

  // Limits for programs that generate code: the number of places cached by code object, which they
  // keep alive, and of distinct lines. Frames beyond that are omitted.
  static constexpr size_t kMaxPlaces = size_t{1} << 14;
  static constexpr size_t kMaxLines = size_t{1} << 20;

  uint64_t word_of(PyFrameObject* frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    auto held = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(code));
    const int line = PyFrame_GetLineNumber(frame);
    {
      MutexLock lock(mutex_);
      const auto known = places_.find({code, line});
      if (known != places_.end()) return known->second.word;
    }
    Frame described;
    // Python 3.9 and 3.10 have no qualified name.
    const char* const name = py::hasattr(held, "co_qualname") ? "co_qualname" : "co_name";
    described.name = utf8_of(held.attr(name));
    described.filename = utf8_of(held.attr("co_filename"));
    described.line = line;
    std::map<Place, CachedLine>
        evicted;  // destroyed without the lock: code objects may run arbitrary destructors
    MutexLock lock(mutex_);
    const uint64_t word = word_of_line(std::move(described));
    if (places_.size() >= kMaxPlaces) evicted.swap(places_);
    places_.try_emplace(Place(code, line), CachedLine{word, std::move(held)});
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

  // A place and its code object, kept alive so that its address is not reused.
  struct CachedLine {
    uint64_t word = 0;
    py::object code{};
  };

  Mutex mutex_;
  std::vector<Frame> lines_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Line, uint64_t> words_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Place, CachedLine> places_ ASHLAR_GUARDED_BY(mutex_);  // modified only with the GIL held
};

// Never destroyed, since allocators may outlive the interpreter. Guarded by the GIL.
std::shared_ptr<FrameProvider>& frames_of_process() {
  static auto* const only = std::make_unique<std::shared_ptr<FrameProvider>>().release();
  return *only;
}

}  // namespace

std::shared_ptr<FrameProvider> python_frames() {
  std::shared_ptr<FrameProvider>& only = frames_of_process();
  if (only == nullptr) only = std::make_shared<PythonFrames>();
  return only;
}

// The parent's table is leaked.
void forget_python_frames() { std::construct_at(&frames_of_process()); }

}  // namespace ashlar::python
