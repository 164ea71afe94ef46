// SPDX-License-Identifier: Apache-2.0
//
// The rules use only the text of names and paths, because the files of the recording machine are
// not available. Windows paths are normalized to '/' and lower case.
#include "analysis/frame_kind.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ashlar {
namespace {

// The lists of PyTorch's torch/cuda/_memory_viz.py.
constexpr std::array<std::string_view, 8> kNoiseInNames = {
    "unwind::unwind",    "CapturedTraceback::gather",
    "gather_with_cpp",   "_start",
    "__libc_start_main", "PyEval_",
    "PyObject_",         "PyFunction_",
};
constexpr std::array<std::string_view, 10> kNoiseInFiles = {
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
};

// Prefixes of native functions that do not help to identify an allocation, because most allocations
// pass through them.
constexpr std::array<std::string_view, 20> kPlumbing = {
    "c10::cuda::CUDACachingAllocator::",
    "c10::hip::HIPCachingAllocator::",
    "c10::CachingDeviceAllocator",
    "c10::impl::",
    "c10::Dispatcher::",
    "c10::BoxedKernel::",
    "c10::StorageImpl::",
    "at::(anonymous namespace)::",
    "at::_ops::",
    "at::detail::",
    "at::empty",
    "at::native::empty",
    "pybind11::",
    "std::",
    "__clone",
    "__pyx_",
    "_Py",
    "pthread_",
    "cfunction_",
    "method_vector",
};
constexpr std::array<std::string_view, 4> kThreadEntries = {"clone", "clone3", "start_thread",
                                                            "execute_native_thread_routine"};

// Libraries of C++ programs: namespaces and prefixes of functions.
constexpr std::array<std::string_view, 11> kLibraryPrefixes = {
    "ashlar::", "ashlar_", "std::",    "__gnu_cxx::", "c10::", "c10d::",
    "at::",     "torch::", "caffe2::", "thrust::",    "cub::",
};
// Prefixes of C functions that continue with an upper-case letter, such as "cudaMalloc".
constexpr std::array<std::string_view, 8> kCamelCasePrefixes = {"cuda", "cu",   "cudnn", "cublas",
                                                                "hip",  "nccl", "rccl",  "Py"};
constexpr std::array<std::string_view, 8> kSystemFiles = {
    "/usr/include/", "/usr/lib", "/usr/local/cuda", "/opt/rocm",
    "/sysdeps/",     "/csu/",    "/nptl/",          ".so.",
};

// Files that only PyTorch has. The folder "torch" that contains them is a library even outside
// site-packages, for example in a clone that is installed with `pip install -e`.
constexpr std::array<std::string_view, 8> kTorchFiles = {
    "torch/nn/modules/module.py",
    "torch/_tensor.py",
    "torch/_ops.py",
    "torch/optim/optimizer.py",
    "torch/autograd/graph.py",
    "torch/autograd/function.py",
    "torch/utils/_contextlib.py",
    "torch/_dynamo/eval_frame.py",
};

template <size_t kCount>
bool contains_any(std::string_view text, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

template <size_t kCount>
bool starts_with_any(std::string_view text, const std::array<std::string_view, kCount>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [text](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns a Windows path with '/' as separator and in lower case, because Windows ignores case.
// Returns other paths unchanged.
std::string normalized(std::string_view path) {
  std::string made(path);
  if (!is_windows_path(path)) return made;
  for (char& c : made) {
    if (c == '\\') c = '/';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return made;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Returns the name of the folder that contains the file or folder `path`.
std::string_view folder_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : base_name(path.substr(0, slash));
}

bool is_python_file(std::string_view path) {
  return path.ends_with(".py") || path.ends_with(".pyx") || path.ends_with(".pyi") ||
         path.ends_with(".pxd") || path.ends_with(".pxi") || path.ends_with(".ipynb");
}

bool is_installed(std::string_view path) {
  return path.find("/site-packages/") != std::string_view::npos ||
         path.find("/dist-packages/") != std::string_view::npos ||
         path.find("/huggingface/modules/transformers_modules/") != std::string_view::npos ||
         path.find(".exe/__main__.py") != std::string_view::npos;
}

// Cython records relative paths within the source of an installed package.
bool is_cython_of_package(std::string_view path) {
  return path.ends_with(".pyx") && !path.starts_with('/') && !is_windows_path(path);
}

// Whether a folder's name is that of a Python installation: "python3.11", "python311",
// "cpython-3.10.19-windows-x86_64-none", "miniconda3".
bool names_an_interpreter(std::string_view folder) {
  constexpr std::array<std::string_view, 7> kInstallations = {
      "python", "cpython", "pypy", "anaconda", "miniconda", "miniforge", "mambaforge"};
  return starts_with_any(folder, kInstallations);
}

// Whether the file is in "lib/python3.11/" or, on Windows, in the folder "lib" of an installation
// or of a conda environment.
bool is_standard_library(std::string_view path) {
  if (path.find("/python3") != std::string_view::npos) {
    for (const std::string_view folder : {"/lib/python3", "/lib64/python3", "/lib32/python3"}) {
      const size_t found = path.find(folder);
      if (found == std::string_view::npos) continue;
      const size_t end = path.find_first_not_of("0123456789.t", found + folder.size());
      if (end != std::string_view::npos && path[end] == '/') return true;
    }
  }
  if (is_windows_path(path)) {
    const size_t lib = path.find("/lib/");
    if (lib == std::string_view::npos) return false;
    const std::string_view installation = path.substr(0, lib);
    return names_an_interpreter(base_name(installation)) || folder_name(installation) == "envs";
  }
  const size_t lib = path.find("/Lib/");  // a build of CPython that is not installed
  return lib != std::string_view::npos && names_an_interpreter(base_name(path.substr(0, lib)));
}

// TorchInductor stores its code as "<folder>/nv/cnv….py": a hash that begins with 'c', in a folder
// named by the next two characters.
bool is_inductor_output(std::string_view path) {
  if (path.find("/torchinductor_") != std::string_view::npos) return true;
  constexpr size_t kMinHashCharacters = 40;
  const std::string_view file = base_name(path);
  const std::string_view folder = folder_name(path);
  return file.size() > kMinHashCharacters && folder.size() == 2 && file.front() == 'c' &&
         file.substr(1, 2) == folder;
}

// Whether a source file of C is part of CPython, wherever it was built.
bool is_cpython_source(std::string_view path) {
  constexpr std::array<std::string_view, 4> kFolders = {"/Objects/", "/Python/", "/Modules/",
                                                        "/Parser/"};
  return path.ends_with(".c") && contains_any(path, kFolders);
}

// Returns the folders of the project that contains the Python file at `path`: the file's folder and
// its parent. Omits the parent if it is less than three levels below the root, because it may
// contain other projects. Returns no folders for a file directly in "/" or "/tmp/".
// REQUIRES: `path` is absolute.
std::vector<std::string> project_folders(std::string_view path) {
  constexpr std::ptrdiff_t kMinSlashes = 4;  // "/srv/jobs/project/"
  std::vector<std::string> folders;
  const std::string_view folder = path.substr(0, path.rfind('/') + 1);
  if (folder.size() < 2 || folder == "/tmp/") return folders;
  folders.emplace_back(folder);
  const std::string_view parent = folder.substr(0, folder.rfind('/', folder.size() - 2) + 1);
  if (std::count(parent.begin(), parent.end(), '/') >= kMinSlashes) folders.emplace_back(parent);
  return folders;
}

// Whether the file is a launcher that `pip` or `conda` generated, such as "/opt/venv/bin/torchrun".
bool is_console_script(std::string_view path) {
  return folder_name(path) == "bin" && base_name(path).find('.') == std::string_view::npos;
}

bool is_dunder(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

bool is_plumbing(std::string_view name) {
  return starts_with_any(name, kPlumbing) ||
         std::find(kThreadEntries.begin(), kThreadEntries.end(), name) != kThreadEntries.end() ||
         (name.starts_with("Py") && name.find('_') != std::string_view::npos);
}

bool is_camel_case_api(std::string_view name) {
  return std::any_of(kCamelCasePrefixes.begin(), kCamelCasePrefixes.end(),
                     [name](std::string_view prefix) {
                       return name.size() > prefix.size() && name.starts_with(prefix) &&
                              name[prefix.size()] >= 'A' && name[prefix.size()] <= 'Z';
                     });
}

// Whether the user typed or packaged the code, as in "<stdin>". Other names in angle brackets
// denote generated code.
bool is_typed_code(std::string_view path) {
  constexpr std::array<std::string_view, 8> kTyped = {"<stdin>",  "<ipython-input", "<python-input",
                                                      "<input>",  "<command",       "<cell",
                                                      "<doctest", "<torch_package"};
  return starts_with_any(path, kTyped);
}

}  // namespace

FrameClassifier::FrameClassifier(const SnapshotTables& tables) {
  for (const Frame& frame : tables.frames) {
    if (frame.name == "<module>" && !frame.filename.empty()) scripts_.insert(frame.filename);
  }
  for (const Frame& frame : tables.frames) {
    if (!is_python(frame)) {
      has_native_ = has_native_ || !frame.name.empty();
      continue;
    }
    has_python_ = true;
    const std::string path = normalized(frame.filename);
    is_spawned_ = is_spawned_ || path.ends_with("/multiprocessing/spawn.py");
    for (const std::string_view file : kTorchFiles) {
      if (!path.ends_with(file)) continue;
      const std::string_view root = std::string_view(path).substr(0, path.size() - file.size());
      if (root.empty() || root.ends_with('/')) library_roots_.insert(std::string(root) + "torch/");
    }
  }
  if (!has_python_ || !has_native_) return;
  for (const Frame& frame : tables.frames) {
    if (!is_python(frame) || python_kind(frame) != FrameKind::kUser) continue;
    const std::string path = normalized(frame.filename);
    if (!path.starts_with('/') && !is_windows_path(path)) continue;
    for (std::string& folder : project_folders(path)) user_folders_.insert(std::move(folder));
  }
}

FrameKind FrameClassifier::kind(const Frame& frame) const {
  return is_python(frame) ? python_kind(frame) : native_kind(frame);
}

bool FrameClassifier::is_python(const Frame& frame) const {
  if (frame.name.starts_with("__pyx_")) return false;  // a C function that Cython generated
  return is_python_file(frame.filename) || frame.filename.starts_with('<') ||
         scripts_.contains(frame.filename);
}

FrameKind FrameClassifier::python_kind(const Frame& frame) const {
  const std::string path = normalized(frame.filename);
  if (path.starts_with("<string>")) {
    // Generated methods of classes, the start of a spawned process, or `python -c`.
    const bool is_generated = is_dunder(frame.name) || frame.name == "<lambda>";
    const bool is_start = frame.name == "<module>" && is_spawned_;
    return is_generated || is_start ? FrameKind::kInterpreter : FrameKind::kUser;
  }
  if (path.starts_with("<frozen")) return FrameKind::kInterpreter;
  if (path.starts_with('<')) {
    return is_typed_code(path) ? FrameKind::kUser : FrameKind::kLibrary;
  }
  if (is_installed(path) || is_cython_of_package(path)) return FrameKind::kLibrary;
  if (is_standard_library(path)) return FrameKind::kInterpreter;
  if (is_inductor_output(path) || is_console_script(path)) return FrameKind::kLibrary;
  const bool is_in_library =
      std::any_of(library_roots_.begin(), library_roots_.end(),
                  [&](const std::string& root) { return path.starts_with(root); });
  return is_in_library ? FrameKind::kLibrary : FrameKind::kUser;
}

FrameKind FrameClassifier::native_kind(const Frame& frame) const {
  if (frame.name.empty() || frame.name == "??" || is_boilerplate(frame)) {
    return FrameKind::kInterpreter;
  }
  const std::string_view name = function_name(frame.name);
  if (!has_python_) {
    const bool is_library = starts_with_any(name, kLibraryPrefixes) || is_plumbing(name) ||
                            is_camel_case_api(name) || contains_any(frame.filename, kSystemFiles) ||
                            frame.filename.ends_with(".so");
    if (!is_library) return FrameKind::kUser;
  }
  if (is_users_extension(frame)) return FrameKind::kUser;
  return is_plumbing(name) ? FrameKind::kInterpreter : FrameKind::kNative;
}

// Needs the file of the source, which is known if the extension was compiled with -g.
bool FrameClassifier::is_users_extension(const Frame& frame) const {
  const std::string_view name = function_name(frame.name);
  if (starts_with_any(name, kLibraryPrefixes) || is_plumbing(name)) return false;
  const std::string path = normalized(frame.filename);
  if (is_installed(path) || is_cpython_source(path) || contains_any(path, kSystemFiles)) {
    return false;
  }
  // torch.utils.cpp_extension.load_inline() writes the user's code to this folder.
  if (path.find("/torch_extensions/") != std::string::npos) return true;
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (user_folders_.contains(path.substr(0, slash + 1))) return true;
  }
  return false;
}

bool is_windows_path(std::string_view path) {
  return (path.size() > 2 && is_letter(path[0]) && path[1] == ':' &&
          (path[2] == '\\' || path[2] == '/')) ||
         path.starts_with("\\\\");
}

bool is_boilerplate(const Frame& frame) {
  return contains_any(frame.name, kNoiseInNames) || contains_any(frame.filename, kNoiseInFiles);
}

std::string_view function_name(std::string_view demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t depth = 0;  // of template arguments
  size_t begin = 0;
  for (size_t i = 0; i < demangled.size(); ++i) {
    const std::string_view left = demangled.substr(i);
    if (left.starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (left.starts_with("operator()")) {
      i += std::string_view("operator()").size() - 1;
    } else if (left[0] == '<') {
      ++depth;
    } else if (left[0] == '>') {
      depth -= depth > 0 ? 1 : 0;
    } else if (depth == 0 && left[0] == ' ') {
      begin = i + 1;
    } else if (depth == 0 && left[0] == '(') {
      return begin == i ? demangled : demangled.substr(begin, i - begin);
    }
  }
  return demangled;
}

std::string_view backward_node(const Frame& frame) {
  constexpr std::string_view kNamespace = "torch::autograd::";
  constexpr std::string_view kGenerated = "generated::";
  constexpr std::string_view kMethod = "::apply";
  std::string_view name = function_name(frame.name);
  if (!name.starts_with(kNamespace) || !name.ends_with(kMethod)) return {};
  name.remove_prefix(kNamespace.size());
  name.remove_suffix(kMethod.size());
  if (name.starts_with(kGenerated)) name.remove_prefix(kGenerated.size());
  // A PyNode calls a function written in Python; the frame does not contain that function's name.
  return name == "PyNode" ? std::string_view() : name;
}

bool is_backward_engine(const Frame& frame) {
  return frame.name.starts_with("torch::autograd::Engine::");
}

}  // namespace ashlar
