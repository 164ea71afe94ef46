// SPDX-License-Identifier: Apache-2.0
//
// Exports the functions by which a test controls a stand-in driver.
#include "standin/control.h"
#include "standin/exported.h"

namespace ashlar::standin {
namespace {

void restart(const sim::Options& options, const Features& features) {
  Core::get().restart(options, features);
}
Status pause_stream(DeviceIndex device, StreamId stream) {
  return Core::get().machine().pause_stream(device, stream);
}
Status resume_stream(DeviceIndex device, StreamId stream) {
  return Core::get().machine().resume_stream(device, stream);
}
void inject(const sim::FaultRule& rule) { Core::get().machine().inject(rule); }
void clear_faults() { Core::get().machine().clear_faults(); }
void lose(DeviceIndex device, const Status& reason) { Core::get().machine().lose(device, reason); }
int use_count(size_t device) { return Core::get().use_count(device); }
void set_result(const std::string& call, Code code) { Core::get().set_result(call, code); }
size_t multicast_count() { return Core::get().multicast_count(); }
size_t extent_count() { return Core::get().extent_count(); }

size_t multimem_count() { return Core::get().multimem_count(); }
void pause_callbacks() { Core::get().callbacks().pause(); }
void resume_callbacks() { Core::get().callbacks().resume(); }

constexpr ControlTable kTable = {restart,         pause_stream, resume_stream,  inject,
                                 clear_faults,    lose,         use_count,      set_result,
                                 multicast_count, extent_count, multimem_count, pause_callbacks,
                                 resume_callbacks};

}  // namespace

ASHLAR_STANDIN const ControlTable* ashlar_standin_control() { return &kTable; }

}  // namespace ashlar::standin
