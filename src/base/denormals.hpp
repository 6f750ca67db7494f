// SPDX-License-Identifier: Apache-2.0
// Numbers below 2^-126 count as zero, as they do in TensorFlow.
//
// The moments of a weight that gets no more gradients (behind a dead ReLU, say) shrink by a factor
// every step, reach this range after some hundred steps and, rounded, stay in it for good. There
// arithmetic is slow: LeNet-5's Adam took 21 us a step at first and 48 us from step 500 on (Zen 4).
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace surefit {

// While in scope, on the thread that made it. All arithmetic of a step happens in one, on whatever
// thread, so that the bits do not depend on where a task runs; the caller's own is left as it was.
class DenormalsAreZero {
 public:
  DenormalsAreZero() : before_(mode()) { set_mode(kZero); }
  ~DenormalsAreZero() { set_mode(before_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kZero = 0x8040;  // results flushed to zero, operands taken for zero
  static unsigned mode() {
    return _mm_getcsr() & kZero;
  }
  static void set_mode(unsigned wanted) {
    // Writing costs more than reading, and scopes are often within another.
    if (const unsigned now = _mm_getcsr(); (now & kZero) != wanted)
      _mm_setcsr((now & ~kZero) | wanted);
  }
#else
  static constexpr unsigned kZero = 0;
  static unsigned mode() {
    return 0;
  }
  static void set_mode(unsigned) {}
#endif
  unsigned before_;
};

}  // namespace surefit
