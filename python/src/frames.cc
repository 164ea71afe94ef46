// Frames are walked with the GIL, which the thread that allocates has released; what a line is
// called is asked once.
#include "frames.h"

#include <pybind11/pybind11.h>

#include <frameobject.h>

#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gil.h"

namespace ashlar::python {
namespace {

// A word is a position in the table, plus one.
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

  void keep(uint64_t) override {}  // all of them are

  Frame describe(uint64_t word) override {
    MutexLock lock(mutex_);
    return word == 0 || word > lines_.size() ? Frame{} : lines_[word - 1];
  }

 private:
  using Place = std::pair<const PyCodeObject*, int>;

  uint64_t word_of(PyFrameObject* frame) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    auto held = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(code));
    const int line = PyFrame_GetLineNumber(frame);
    {
      MutexLock lock(mutex_);
      const auto known = words_.find({code, line});
      if (known != words_.end()) return known->second;
    }
    Frame described;
    // Python 3.9 and 3.10 know only the last part of the name.
    const char* const name = py::hasattr(held, "co_qualname") ? "co_qualname" : "co_name";
    described.name = py::str(held.attr(name));
    described.filename = py::str(held.attr("co_filename"));
    described.line = line;
    MutexLock lock(mutex_);
    lines_.push_back(std::move(described));
    words_[{code, line}] = lines_.size();
    (void)held.release();  // for good, so that no other code gets its address
    return lines_.size();
  }

  Mutex mutex_;
  std::vector<Frame> lines_ ASHLAR_GUARDED_BY(mutex_);
  std::map<Place, uint64_t> words_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<FrameProvider> python_frames() {
  // Without an end, like the allocators that may outlive the interpreter.
  static const auto* const only =
      std::make_unique<std::shared_ptr<FrameProvider>>(std::make_shared<PythonFrames>()).release();
  return *only;
}

}  // namespace ashlar::python
