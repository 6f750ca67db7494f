// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "surefit/callbacks.hpp"

namespace surefit {

// How training is shown: a live bar on a terminal, plain lines elsewhere, JSON lines on request.
enum class ProgressStyle { kAuto, kJson, kQuiet };
CallbackHandle make_progress(ProgressStyle style);

}  // namespace surefit
