// Reverse-mode automatic differentiation over a thread-local tape.
//
//   {
//     autograd::RecordScope record;
//     loss = net(x); ...
//   }
//   autograd::Backward({loss});
//
// Thread safety: the tape is thread-local; a graph is used by the thread that recorded it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice::autograd {

enum class GradReq { kNull, kWrite, kAdd };

bool IsRecording();
bool IsTraining();

// Records operations until its end. `training` is what layers such as dropout see.
class RecordScope {
 public:
  explicit RecordScope(bool training = true);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  const bool was_recording_, was_training_;
};

// Stops recording until its end.
class PauseScope {
 public:
  explicit PauseScope(bool training = false);
  ~PauseScope();
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  const bool was_recording_, was_training_;
};

// Makes `array` a variable: Backward leaves its gradient in Grad(array). For kWrite each Backward replaces
// it, for kAdd it adds up.
void AttachGrad(NDArray& array, GradReq req = GradReq::kWrite);
// The gradient's memory; Error(kFailedPrecondition) when none is attached.
NDArray Grad(const NDArray& variable);
// How many Backward calls have written this variable's gradient: what a Trainer compares to find stale ones.
uint64_t GradVersion(const NDArray& variable);
// Called during Backward as soon as the variable's gradient has been issued in full, before the rest of
// backward is: its event exists, so a push can be queued behind it. One hook per variable; empty removes it.
void SetGradHook(NDArray& variable, std::function<void()> hook);

// Gradients of the sum of `heads` (each weighted by its head gradient, or by ones). Heads may live on several
// contexts: their graphs are issued in turn, so that the contexts work at the same time. Frees the recorded
// graphs: a second Backward through any part of them is Error(kFailedPrecondition).
void Backward(const std::vector<NDArray>& heads, const std::vector<NDArray>& head_grads = {});

}  // namespace sluice::autograd
