// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "surefit/callbacks.hpp"

namespace surefit::worker {

// Ends training in time and in order, with a checkpoint: on SIGTERM and SIGINT behind the step
// under way, and before the deadline or the end of a SLURM job. A second SIGINT ends the process at
// once, which is safe too; SIGHUP does nothing. `deadline_s`: seconds since the program started
// (since the guard did, where there is one); 0: none.
std::unique_ptr<Callback> make_interruption(double deadline_s);

// How long the process may take from now, by --deadline and SLURM; infinity where nothing ends it.
double seconds_left(double deadline_s);

}  // namespace surefit::worker
