// SPDX-License-Identifier: Apache-2.0
//
// Tests the classification of frames by name and path.
#include "analysis/frame_kind.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

constexpr const char* kTrainScript = "/srv/jobs/train.py";

Frame python(const char* filename, const char* name = "f") {
  return {.name = name, .filename = filename, .line = 1};
}

Frame native(const char* name, const char* filename = "??") {
  return {.name = name, .filename = filename};
}

// Classifies the first frame in a snapshot of the given frames and the user's script.
FrameKind kind_in_python(const std::vector<Frame>& frames) {
  SnapshotTables tables;
  tables.frames.push_back(python(kTrainScript));
  tables.frames.insert(tables.frames.end(), frames.begin(), frames.end());
  return FrameClassifier(tables).kind(frames.front());
}

FrameKind kind_in_cpp(const Frame& frame) {
  SnapshotTables tables;
  tables.frames.push_back(frame);
  return FrameClassifier(tables).kind(frame);
}

TEST(FrameKindTest, FindsUserCode) {
  for (const char* file :
       {kTrainScript, "train.py", "./src/lib/model.py", "C:\\work\\lib\\model.py",
        "/mnt/lib/transformers/models/llama.py", "/tmp/ipykernel_123/3521.py",
        "C:\\Users\\me\\AppData\\Local\\Temp\\ipykernel_9\\1.py", "<ipython-input-3-ab12>",
        "<stdin>", "<string>", "/opt/python/app.py", "/srv/jobs/torch/train.py",
        "/srv/jobs/envs/lib/model.py", "/srv/jobs/kernels.pyx", "/srv/python3/lib/x.py"}) {
    EXPECT_EQ(kind_in_python({python(file)}), FrameKind::kUser) << file;
  }
}

TEST(FrameKindTest, FindsInstalledPackages) {
  for (const char* file :
       {"/opt/conda/lib/python3.10/site-packages/torch/_ops.py",
        "/usr/lib/python3/dist-packages/yaml/__init__.py",
        "C:\\work\\.venv\\lib\\site-packages\\torch\\storage.py",
        "/data/ann/.cache/huggingface/modules/transformers_modules/org/model.py",
        "C:\\env\\Scripts\\torchrun.exe\\__main__.py", "python/ray/_raylet.pyx"}) {
    EXPECT_EQ(kind_in_python({python(file)}), FrameKind::kLibrary) << file;
  }
  EXPECT_EQ(kind_in_python({python("/opt/venv/bin/torchrun", "<module>")}), FrameKind::kLibrary);
  EXPECT_EQ(kind_in_python({python("/srv/jobs/train", "<module>")}), FrameKind::kUser);
}

TEST(FrameKindTest, FindsTheStandardLibrary) {
  for (const char* file :
       {"/usr/lib/python3.11/threading.py", "/usr/lib64/python3.9/runpy.py",
        "/srv/jobs/.local/share/uv/python/cpython-3.13/lib/python3.13t/copy.py",
        "C:\\Users\\me\\uv\\cpython-3.10.19-windows-x86_64-none\\lib\\copy.py",
        "C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python310\\Lib\\runpy.py",
        "C:\\ProgramData\\miniconda3\\envs\\gpu\\lib\\copy.py", "<frozen runpy>"}) {
    EXPECT_EQ(kind_in_python({python(file)}), FrameKind::kInterpreter) << file;
  }
}

TEST(FrameKindTest, FindsGeneratedCode) {
  for (const char* file :
       {"/tmp/torchinductor_me/nv/x.py", "<eval_with_key>.7", "<attrs generated init a.B>",
        "/cache/nv/cnvdjga56m4jhymx6coxeuibqlwx7m7zbgcsidq7y64s6oicocra.py"}) {
    EXPECT_EQ(kind_in_python({python(file)}), FrameKind::kLibrary) << file;
  }
  EXPECT_EQ(kind_in_python({python("<string>", "__init__")}), FrameKind::kInterpreter);
}

TEST(FrameKindTest, DistinguishesInlineCodeFromSpawnedStarts) {
  EXPECT_EQ(kind_in_python({python("<string>", "<module>")}), FrameKind::kUser) << "python -c";
  EXPECT_EQ(kind_in_python({python("<string>", "<module>"),
                            python("/usr/lib/python3.11/multiprocessing/spawn.py")}),
            FrameKind::kInterpreter);
}

TEST(FrameKindTest, RecognizesEditableInstallOfPytorch) {
  const Frame module = python("/srv/jobs/pytorch/torch/nn/modules/module.py");
  EXPECT_EQ(kind_in_python({python("/srv/jobs/pytorch/torch/cuda/amp.py"), module}),
            FrameKind::kLibrary);
  EXPECT_EQ(kind_in_python({python("/srv/jobs/pytorch/train.py"), module}), FrameKind::kUser);
}

TEST(FrameKindTest, NativeFramesOfPythonProgramsAreNotUserCode) {
  EXPECT_EQ(kind_in_python({native("at::native::add(at::Tensor const&)")}), FrameKind::kNative);
  EXPECT_EQ(kind_in_python({native("my_kernel(int)", "/opt/src/kernel.cc")}), FrameKind::kNative);
  for (const char* name :
       {"at::_ops::add::call(at::Tensor const&)", "_PyEval_EvalFrameDefault", "PyCMethod_New", "??",
        "c10::cuda::CUDACachingAllocator::Native::malloc(void**)", "__clone",
        "std::error_code::default_error_condition() const", "start_thread"}) {
    EXPECT_EQ(kind_in_python({native(name)}), FrameKind::kInterpreter) << name;
  }
}

TEST(FrameKindTest, FindsTheUsersExtensionsByTheirSource) {
  for (const char* file : {"/srv/jobs/csrc/scan.cu", "/srv/jobs/scan.cpp",
                           "/data/ann/.cache/torch_extensions/py311_cu126/scan/main.cpp"}) {
    EXPECT_EQ(kind_in_python({native("scan_forward(at::Tensor)", file)}), FrameKind::kUser) << file;
  }
  for (const char* file :
       {"", "??", "scan.cpp", "/opt/build/scan.cpp", "/srv/jobs/venv/lib/site-packages/scan/a.cpp",
        "/srv/jobs/cpython/Objects/scan.c", "/srv/jobs/lib/libscan.so.1"}) {
    EXPECT_EQ(kind_in_python({native("scan_forward(at::Tensor)", file)}), FrameKind::kNative)
        << file;
  }
  EXPECT_EQ(kind_in_python({native("at::native::add(at::Tensor)", "/srv/jobs/pytorch/add.cpp")}),
            FrameKind::kNative);
}

TEST(FrameKindTest, FindsExtensionsBesideTheFolderOfThePythonCode) {
  const std::vector<Frame> frames = {native("scan_forward(at::Tensor)", "/mnt/team/net/csrc/a.cu"),
                                     python("/mnt/team/net/model/block.py")};
  EXPECT_EQ(kind_in_python(frames), FrameKind::kUser);
}

TEST(FrameKindTest, FindsUserFunctionsOfCppPrograms) {
  EXPECT_EQ(kind_in_cpp(native("main", "/srv/jobs/main.cc")), FrameKind::kUser);
  EXPECT_EQ(kind_in_cpp(native("Net::forward(at::Tensor)", "./train")), FrameKind::kUser);
  EXPECT_EQ(kind_in_cpp(native("cloneModel(int)", "")), FrameKind::kUser);
  for (const Frame& frame :
       {native("ashlar::Allocator::allocate(unsigned long)", "src/api/allocator.cc"),
        native("at::Tensor at::native::add<float>(long)"), native("cudaMalloc"),
        native("std::vector<int>::resize(long)"), native("f()", "/usr/lib/libfoo.so"),
        native("g()", "/opt/lib/libfoo.so.2"), native("__libc_start_main"), native("_start")}) {
    EXPECT_NE(kind_in_cpp(frame), FrameKind::kUser) << frame.name;
  }
}

TEST(FrameKindTest, ClassifiesSameBoilerplateAsPytorch) {
  for (const char* name :
       {"torch::unwind::unwind()", "CapturedTraceback::gather(bool)", "gather_with_cpp", "_start",
        "__libc_start_main_impl", "PyEval_EvalCode", "PyObject_Call", "_PyFunction_Vectorcall"}) {
    EXPECT_TRUE(is_boilerplate(native(name, ""))) << name;
  }
  for (const char* file :
       {"aten/src/ATen/core/boxing/impl.h", "build/RegisterCUDA.cpp", "ATen/RedispatchFunctions.h",
        "Python/pythonrun.c", "Modules/main.c", "Objects/call.c", "Objects/methodobject.c",
        "internal/pycore_ceval.h", "Python/ceval.c", "cpython/abstract.h"}) {
    EXPECT_TRUE(is_boilerplate(native("f", file))) << file;
  }
  EXPECT_FALSE(is_boilerplate(python("torch/nn/modules/module.py", "forward")));
}

TEST(FrameKindTest, RemovesReturnTypeAndParametersOfFunctions) {
  EXPECT_EQ(function_name("void a::b<int (*)(long)>(a::c const&)"), "a::b<int (*)(long)>");
  EXPECT_EQ(function_name("at::(anonymous namespace)::add(long)"),
            "at::(anonymous namespace)::add");
  EXPECT_EQ(function_name("a::Node::operator()(int&&)"), "a::Node::operator()");
  EXPECT_EQ(function_name("<module>"), "<module>");
  EXPECT_EQ(function_name("forward"), "forward");
  EXPECT_EQ(function_name("backward pass (autograd thread)"), "backward pass (autograd thread)");
}

TEST(FrameKindTest, FindsNodesOfBackwardPass) {
  EXPECT_EQ(backward_node(native("torch::autograd::generated::MulBackward0::apply(int&&)")),
            "MulBackward0");
  EXPECT_EQ(backward_node(native("torch::autograd::AccumulateGrad::apply(int&&)")),
            "AccumulateGrad");
  EXPECT_EQ(backward_node(native("torch::autograd::PyNode::apply(int&&)")), "");
  EXPECT_EQ(backward_node(native("torch::autograd::generated::MulBackward0_apply_functional(int)")),
            "");
}

}  // namespace
}  // namespace ashlar
