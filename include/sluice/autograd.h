// Reverse-mode automatic differentiation over a thread-local tape.
//
//   {
//     autograd::RecordScope record;
//     loss = net(x); ...
//   }
//   autograd::Backward({loss});
//
// What the gradients of recorded operations are made from must be the same when Backward runs: operators that
// write in place refuse what the tape can see (ndarray.h), and Backward refuses to run when it was written in
// any other way (Error(kFailedPrecondition), which names the operation).
//
// Thread safety: the tape is thread-local; a graph is used by the thread that recorded it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice::autograd {

enum class GradReq { kNull, kWrite, kAdd };

bool IsRecording();
bool IsTraining();

// Where layers such as dropout draw from: their masks are a pure function of this, the sample's row, the
// layer and the element.
struct DrawPosition {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_sample = 0;  // row 0, counted over the step's batch of all devices and workers
};
DrawPosition CurrentDraw();

// What the scopes of a thread have set.
struct ScopeState {
  bool recording = false;
  bool training = false;
  bool step_given = false;
  DrawPosition draw;
};

struct RecordOptions {
  bool training = true;
  uint64_t seed = 0;
  std::optional<uint64_t> step;  // none: another one for every such scope of this thread
};

// Records operations until its end. `training` is what layers such as dropout see. A scope without options
// inside one that names its step draws from that step.
class RecordScope {
 public:
  explicit RecordScope(bool training = true);
  explicit RecordScope(const RecordOptions& options);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  const ScopeState before_;
};

// Until its end row i of what is computed is sample `first_sample` + i of the step's batch. A step whose
// batch is cut over devices or workers names here what each of them got, and drops what one device would
// have:
//
//   const autograd::RecordScope record({.seed = seed, .step = step});
//   for (size_t i = 0; i < parts.size(); ++i) {
//     const autograd::SampleScope samples(first[i]);
//     losses.push_back(loss(net(parts[i]), labels[i]));
//   }
class SampleScope {
 public:
  explicit SampleScope(uint64_t first_sample);
  ~SampleScope();
  SampleScope(const SampleScope&) = delete;
  SampleScope& operator=(const SampleScope&) = delete;

 private:
  const uint64_t before_;
};

// Stops recording until its end.
class PauseScope {
 public:
  explicit PauseScope(bool training = false);
  ~PauseScope();
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  const ScopeState before_;
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
void Backward(const NDArray& head);  // of one head, without making a list

}  // namespace sluice::autograd
