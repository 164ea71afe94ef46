// SPDX-License-Identifier: Apache-2.0
//
// The control functions, inside of a stand-in driver.
#include "standin/control.h"
#include "standin/exported.h"

namespace ashlar::standin {
namespace {

void restart(const sim::Options& options, const Abilities& abilities) {
  Core::get().restart(options, abilities);
}
Status hold(DeviceIndex device, StreamId stream) {
  return Core::get().machine().hold(device, stream);
}
Status resume(DeviceIndex device, StreamId stream) {
  return Core::get().machine().resume(device, stream);
}
void inject(const sim::FaultRule& rule) { Core::get().machine().inject(rule); }
void clear_faults() { Core::get().machine().clear_faults(); }
void lose(DeviceIndex device, const Status& reason) { Core::get().machine().lose(device, reason); }
int use_count(size_t device) { return Core::get().use_count(device); }
void tell(const std::string& call, Code code) { Core::get().tell(call, code); }
size_t multicast_count() { return Core::get().multicast_count(); }
size_t extent_count() { return Core::get().extent_count(); }

size_t multimem_count() { return Core::get().multimem_count(); }

constexpr ControlTable kTable = {restart,         hold,         resume,        inject,
                                 clear_faults,    lose,         use_count,     tell,
                                 multicast_count, extent_count, multimem_count};

}  // namespace

ASHLAR_STANDIN const ControlTable* ashlar_standin_control() { return &kTable; }

}  // namespace ashlar::standin
