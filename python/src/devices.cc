// SPDX-License-Identifier: Apache-2.0
//
// Finds devices by name, and binds the Python classes Device and Machine.
#include "devices.h"

#include <pybind11/stl.h>

#include <charconv>
#include <memory>

#include "api/process_devices.h"
#include "api/unwrap.h"
#include "ashlar/device_call.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "config/environment.h"
#include "gil.h"
#include "interrupt.h"
#include "sizes.h"
#include "texts.h"

namespace ashlar::python {
namespace {

// Creates a machine. The machine is destroyed without the GIL, because its destructor waits for
// running work.
std::shared_ptr<sim::Machine> shared_machine(const sim::Options& options) {
  return share_without_gil(unwrap(sim::Machine::try_create(options)));
}

// Holds the machine of "sim:0", which the environment configures. Like a driver, the machine is
// never destroyed, because its memory may be in use until the process exits.
struct ProcessMachine {
  Mutex mutex;
  std::shared_ptr<sim::Machine> machine ASHLAR_GUARDED_BY(mutex);
};

ProcessMachine& process_machine_slot() {
  static ProcessMachine* const slot = std::make_unique<ProcessMachine>().release();
  return *slot;
}

std::shared_ptr<sim::Machine> process_machine() {
  ProcessMachine& slot = process_machine_slot();
  MutexLock lock(slot.mutex);
  if (slot.machine == nullptr) {
    slot.machine = shared_machine(unwrap(sim_options_from(Environment::of_process())));
  }
  return slot.machine;
}

DeviceRef device_of(const std::shared_ptr<sim::Machine>& machine, size_t index) {
  if (index >= machine->device_count()) {
    unwrap(Status::invalid_argument(text("sim:", index, " does not exist; the machine has ",
                                         machine->device_count(), " devices")));
  }
  return {.machine = machine, .device = &machine->device(DeviceIndex(index))};
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  const size_t count = process_machine()->device_count();
  for (size_t i = 0; i < count; ++i) names.push_back(text("sim:", i));
  for (Device* each : unwrap(process_registry())->devices()) {
    if (each->properties().backend == "sim") continue;
    names.push_back(text(each->properties().backend, ":", each->properties().index));
  }
  return names;
}

py::dict properties_of(const DeviceRef& ref) {
  const DeviceProperties& found = ref.device->properties();
  py::dict all;
  all["backend"] = found.backend;
  all["index"] = found.index.value();
  all["name"] = found.name;
  all["uuid"] = py::bytes(reinterpret_cast<const char*>(found.uuid.data()), found.uuid.size());
  all["pci_id"] = found.pci_id;
  all["capacity_bytes"] = found.capacity_bytes;
  all["granularity_bytes"] = found.granularity_bytes;
  all["has_virtual_memory"] = found.has_virtual_memory;
  all["can_alias"] = found.can_alias;
  all["alias_probe"] = found.alias_probe;
  all["has_stream_ordered_pool"] = found.has_stream_ordered_pool;
  all["has_capture"] = found.has_capture;
  all["greatest_priority"] = found.greatest_priority;
  return all;
}

py::dict memory_stats_of(const DeviceRef& ref) {
  const DeviceMemoryStats found = without_gil([&] { return unwrap(ref.checked().memory_stats()); });
  py::dict all;
  all["free_bytes"] = found.free_bytes;
  all["total_bytes"] = found.total_bytes;
  return all;
}

void bind_device(py::module_& module) {
  py::class_<DeviceRef>(module, "Device",
                        "One accelerator, such as \"sim:0\", \"cuda:1\" or \"hip:0\".")
      .def(py::init([](const std::string& name) {
             return without_gil([&] { return device_named(name); });
           }),
           py::arg("name") = "sim:0", "Finds the device. Loads the driver on first use.")
      .def_property_readonly("name", &DeviceRef::name, "\"sim:0\".")
      .def_property_readonly("properties", properties_of, "Properties and capabilities.")
      .def("memory_stats", memory_stats_of,
           "Returns {\"free_bytes\", \"total_bytes\"}, as reported by the driver.")
      .def(
          "synchronize",
          [](const DeviceRef& ref) {
            interruptible(
                [ref](const std::stop_token&) { unwrap(ref.checked().synchronize_device()); });
          },
          "Waits for all work queued on the device.")
      .def("__eq__",
           [](const DeviceRef& ref, const py::object& other) {
             return py::isinstance<DeviceRef>(other) &&
                    other.cast<const DeviceRef&>().device == ref.device;
           })
      .def("__hash__",
           [](const DeviceRef& ref) { return reinterpret_cast<uintptr_t>(ref.device) >> 4; })
      .def("__str__", &DeviceRef::name)
      .def("__repr__", [](const DeviceRef& ref) {
        const DeviceProperties& found = ref.device->properties();
        return text("<ashlar.Device ", ref.name(), ": ", found.name, ", ",
                    format_bytes(found.capacity_bytes), ">");
      });
  module.def(
      "devices", [] { return without_gil(device_names); },
      "Returns the names of all devices, simulated ones first.");
}

// The Python object of a simulated machine.
struct MachineObject {
  std::shared_ptr<sim::Machine> machine{};  // shared with its devices
  int created_after_forks = fork_count();

  sim::Machine& checked() const {
    require_same_process(created_after_forks);
    return *machine;
  }
  // Returns a device of the machine. Throws InvalidArgument for an unknown index.
  DeviceRef device(const py::object& index) const {
    require_same_process(created_after_forks);
    return device_of(machine, number_argument(index, "index"));
  }
};

MachineObject make_machine(const py::object& device_count, const py::object& capacity,
                           const py::object& seed) {
  sim::Options options;
  options.device_count = number_argument(device_count, "device_count");
  options.capacity_bytes = size_argument(capacity, "capacity");
  if (!seed.is_none()) options.seed = number_argument(seed, "seed");
  return {without_gil([&] { return shared_machine(options); })};
}

py::dict costs_of(const MachineObject& self, const py::object& index) {
  const DeviceRef device = self.device(index);
  const sim::CallCosts costs = without_gil([&] { return self.machine->costs(device.index()); });
  py::dict calls;
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    if (costs.count_of(call) == 0) continue;
    calls[py::str(std::string(name(call)))] = costs.count_of(call);
  }
  py::dict all;
  all["calls"] = calls;
  all["modelled_us"] = static_cast<double>(costs.total_ns) / 1000;
  return all;
}

void set_paused(const MachineObject& self, const StreamObject& stream, bool is_paused) {
  sim::Machine& machine = self.checked();
  if (stream.shared->device().machine != self.machine) {
    unwrap(Status::invalid_argument("the stream belongs to another machine"));
  }
  const DeviceIndex device = stream.shared->device().index();
  without_gil([&] {
    unwrap(is_paused ? machine.pause_stream(device, stream.shared->id())
                     : machine.resume_stream(device, stream.shared->id()));
  });
}

void bind_machine(py::module_& module) {
  py::class_<MachineObject>(module, "Machine",
                            "A private simulated machine with devices of any capacity, without a "
                            "GPU. \"sim:0\" belongs to a machine shared by the process.")
      .def(
          py::init(&make_machine), py::arg("device_count") = 2, py::arg("capacity") = "141GiB",
          py::arg("seed") = py::none(),
          "capacity: per device, in bytes or as text. seed: work runs only inside device calls and "
          "step(), in an order determined by the seed.")
      .def(
          "device",
          [](const MachineObject& self, const py::object& index) { return self.device(index); },
          py::arg("index") = 0, "Returns a device of the machine, which keeps the machine alive.")
      .def("costs", costs_of, py::arg("index") = 0,
           "Returns the device calls so far and their modelled cost on hardware.")
      .def(
          "pause_stream",
          [](const MachineObject& self, const StreamObject& stream) {
            set_paused(self, stream, true);
          },
          py::arg("stream"), "Pauses the stream until resume_stream().")
      .def(
          "resume_stream",
          [](const MachineObject& self, const StreamObject& stream) {
            set_paused(self, stream, false);
          },
          py::arg("stream"), "Resumes a paused stream.")
      .def(
          "step",
          [](const MachineObject& self) {
            return without_gil([&] { return self.checked().step(); });
          },
          "Runs one task that is ready, if the machine has a seed. Returns whether it ran one.")
      .def(
          "lose",
          [](const MachineObject& self, const py::object& index, const std::string& reason) {
            const DeviceRef device = self.device(index);
            without_gil([&] {
              self.machine->lose(device.index(), Status::device_lost("lose", 0, reason));
            });
          },
          py::arg("index") = 0, py::arg("reason") = "lost on purpose",
          "Makes the device lost: every later call fails, as after an illegal access.")
      .def(
          "revive",
          [](const MachineObject& self, const py::object& index) {
            const DeviceRef device = self.device(index);
            without_gil([&] { self.machine->revive(device.index()); });
          },
          py::arg("index") = 0, "Makes a lost device usable again.")
      .def("__repr__", [](const MachineObject& self) {
        const DeviceRef first = device_of(self.machine, 0);
        return text("<ashlar.Machine: ", self.machine->device_count(), " devices of ",
                    format_bytes(first.device->properties().capacity_bytes), ">");
      });
}

}  // namespace

// Overwrites the slot without destroying its contents: the mutex may be locked by a thread that the
// child does not have, and the child must not destroy the parent's machine.
void reset_process_machine() { std::construct_at(&process_machine_slot()); }

std::string DeviceRef::name() const {
  return text(device->properties().backend, ":", device->properties().index);
}

DeviceRef device_named(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string backend = name.substr(0, colon);
  size_t index = 0;
  if (colon != std::string::npos) {
    const char* begin = name.data() + colon + 1;
    const char* end = name.data() + name.size();
    const std::from_chars_result read = std::from_chars(begin, end, index);
    if (begin == end || read.ec != std::errc{} || read.ptr != end) {
      unwrap(Status::invalid_argument(text(
          "\"", name, "\" is not a device (expected a back end and an index, such as sim:0)")));
    }
  }
  if (backend == "sim") return device_of(process_machine(), index);
  return {.device = unwrap(process_device(backend, index))};
}

DeviceRef device_argument(const py::object& device) {
  if (py::isinstance<DeviceRef>(device)) return device.cast<DeviceRef>();
  if (!py::isinstance<py::str>(device)) {
    unwrap(Status::invalid_argument(
        text("device: ", repr_of(device),
             " is not a device (expected an ashlar.Device or a name, such as sim:0)")));
  }
  const std::string name = encode_utf8(device);
  return without_gil([&] { return device_named(name); });
}

void bind_devices(py::module_& module) { bind_device(module); }
void bind_machines(py::module_& module) { bind_machine(module); }

}  // namespace ashlar::python
