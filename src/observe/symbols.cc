// SPDX-License-Identifier: Apache-2.0
//
// Loads libdw at run time, so that Ashlar builds without it. Declares pointers to libdw's
// functions, with void* for its opaque types.
#include "observe/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace ashlar {
namespace {

std::string demangle(const char* name) {
  int status = 0;
  const auto release = [](char* text) { std::free(text); };
  const std::unique_ptr<char, decltype(release)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), release);
  return status == 0 && readable != nullptr ? readable.get() : name;
}

std::string format_hex(uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

// Symbolizes with dladdr, which finds exported functions and the shared object of an address.
Frame describe_with_dladdr(uint64_t address) {
  Frame frame;
  Dl_info found{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): dladdr takes a code address.
  if (::dladdr(reinterpret_cast<const void*>(address), &found) == 0) {
    frame.name = format_hex(address);
    return frame;
  }
  frame.filename = found.dli_fname == nullptr ? "" : found.dli_fname;
  const auto base = reinterpret_cast<uint64_t>(found.dli_fbase);
  frame.name =
      found.dli_sname != nullptr ? demangle(found.dli_sname) : "+" + format_hex(address - base);
  return frame;
}

}  // namespace

// A libdw session for this process.
class Symbolizer::DebugInfo {
 public:
  static std::unique_ptr<DebugInfo> open();
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  // Sets the fields of `frame` that the debug information contains. Returns false if the debug
  // information has no name for the address.
  bool describe(uint64_t address, Frame& frame) const;

 private:
  struct Callbacks {  // Dwfl_Callbacks
    void* find_elf;
    void* find_debuginfo;
    void* section_address;
    char** debuginfo_path;
  };
  DebugInfo() = default;
  void describe_by_scanning_units(void* module, uint64_t address, Frame& frame) const;
  template <typename Function>
  bool bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;
  void* session_ = nullptr;  // Dwfl*
  char* no_path_ = nullptr;
  Callbacks callbacks_{};
  void* (*begin_)(const Callbacks*) = nullptr;
  void (*end_)(void*) = nullptr;
  int (*report_)(void*, pid_t) = nullptr;
  int (*report_end_)(void*, void*, void*) = nullptr;
  void* (*module_of_)(void*, uint64_t) = nullptr;
  const char* (*name_of_)(void*, uint64_t) = nullptr;
  void* (*line_of_)(void*, uint64_t) = nullptr;
  const char* (*line_info_)(void*, uint64_t*, int*, int*, uint64_t*, uint64_t*) = nullptr;
  // These functions search the compilation units one by one, for compilers that omit
  // .debug_aranges.
  void* (*next_unit_)(void*, void*, uint64_t*) = nullptr;
  int (*unit_has_)(void*, uint64_t) = nullptr;
  void* (*line_in_unit_)(void*, uint64_t) = nullptr;
  const char* (*file_of_line_)(void*, uint64_t*, uint64_t*) = nullptr;
  int (*number_of_line_)(void*, int*) = nullptr;
};

std::unique_ptr<Symbolizer::DebugInfo> Symbolizer::DebugInfo::open() {
  std::unique_ptr<DebugInfo> debug(new DebugInfo());
  debug->library_ = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (debug->library_ == nullptr) return nullptr;
  const bool bound = debug->bind(debug->begin_, "dwfl_begin") &&
                     debug->bind(debug->end_, "dwfl_end") &&
                     debug->bind(debug->report_, "dwfl_linux_proc_report") &&
                     debug->bind(debug->report_end_, "dwfl_report_end") &&
                     debug->bind(debug->module_of_, "dwfl_addrmodule") &&
                     debug->bind(debug->name_of_, "dwfl_module_addrname") &&
                     debug->bind(debug->line_of_, "dwfl_module_getsrc") &&
                     debug->bind(debug->line_info_, "dwfl_lineinfo") &&
                     debug->bind(debug->next_unit_, "dwfl_module_nextcu") &&
                     debug->bind(debug->unit_has_, "dwarf_haspc") &&
                     debug->bind(debug->line_in_unit_, "dwarf_getsrc_die") &&
                     debug->bind(debug->file_of_line_, "dwarf_linesrc") &&
                     debug->bind(debug->number_of_line_, "dwarf_lineno") &&
                     debug->bind(debug->callbacks_.find_elf, "dwfl_linux_proc_find_elf") &&
                     debug->bind(debug->callbacks_.find_debuginfo, "dwfl_standard_find_debuginfo");
  if (!bound) return nullptr;
  debug->callbacks_.debuginfo_path = &debug->no_path_;
  debug->session_ = debug->begin_(&debug->callbacks_);
  if (debug->session_ == nullptr) return nullptr;
  const bool reported = debug->report_(debug->session_, ::getpid()) == 0 &&
                        debug->report_end_(debug->session_, nullptr, nullptr) == 0;
  return reported ? std::move(debug) : nullptr;
}

Symbolizer::DebugInfo::~DebugInfo() {
  if (session_ != nullptr) end_(session_);
  // libdw stays loaded, because unloading it does not undo its process-wide registrations.
}

bool Symbolizer::DebugInfo::describe(uint64_t address, Frame& frame) const {
  void* module = module_of_(session_, address);
  if (module == nullptr) return false;
  const char* name = name_of_(module, address);
  if (name == nullptr) return false;
  frame.name = demangle(name);
  if (void* line = line_of_(module, address)) {
    int number = 0;
    const char* file = line_info_(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (file != nullptr) frame.filename = file;
    frame.line = number;
  } else {
    describe_by_scanning_units(module, address, frame);
  }
  return true;
}

void Symbolizer::DebugInfo::describe_by_scanning_units(void* module, uint64_t address,
                                                       Frame& frame) const {
  uint64_t bias = 0;  // load address minus address in the file
  for (void* unit = next_unit_(module, nullptr, &bias); unit != nullptr;
       unit = next_unit_(module, unit, &bias)) {
    if (unit_has_(unit, address - bias) <= 0) continue;
    void* line = line_in_unit_(unit, address - bias);
    const char* file = line == nullptr ? nullptr : file_of_line_(line, nullptr, nullptr);
    int number = 0;
    if (file == nullptr || number_of_line_(line, &number) != 0) return;
    frame.filename = file;
    frame.line = number;
    return;
  }
}

Symbolizer::Symbolizer() : debug_(DebugInfo::open()) {}
Symbolizer::~Symbolizer() = default;

// Looks up the last byte before the return address, which belongs to the call instruction. The
// return address itself may be on another line or in another function.
Frame Symbolizer::describe(uint64_t return_address) const {
  const uint64_t call = return_address - 1;
  Frame frame = describe_with_dladdr(call);
  if (debug_ != nullptr) (void)debug_->describe(call, frame);
  return frame;
}

}  // namespace ashlar
