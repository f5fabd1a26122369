// Reverse-mode automatic differentiation over a thread-local tape.
//
//   {
//     autograd::RecordScope record;
//     loss = net(x); ...
//   }
//   autograd::Backward({loss});
//
// The arrays from which gradients of recorded operations are computed must not change until Backward runs.
// Operators that work in place refuse arrays of which the tape knows (ndarray.h). If such an array was
// written in any other way, Backward throws Error(kFailedPrecondition), which names the operation.
//
// Thread safety: the tape is thread-local; a graph may only be used by the thread that recorded it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sluice/array_list.h"
#include "sluice/ndarray.h"
#include "sluice/row_sparse.h"

namespace sluice::autograd {

enum class GradReq { kNull, kWrite, kAdd };

bool IsRecording();
bool IsTraining();

// The source of random numbers of layers such as dropout: a mask is a pure function of this, the sample's
// row, the layer and the element.
struct DrawPosition {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t first_sample = 0;  // the sample in row 0, counted in the batch of all devices and workers
};
DrawPosition CurrentDraw();

// The state that the scopes of a thread set.
struct ScopeState {
  bool recording = false;
  bool training = false;
  bool step_given = false;
  DrawPosition draw;
};

struct RecordOptions {
  bool training = true;
  uint64_t seed = 0;
  std::optional<uint64_t> step;  // nullopt: every such scope of this thread has another step
};

// Records operations while it exists. Layers such as dropout use `training`. A scope without options inside a
// scope that has a given step draws from that step.
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

// While it exists, row i of the arrays that are computed is sample `first_sample` + i of the step's batch. If
// the batch of a step is divided over devices or workers, one scope for each part makes dropout choose the
// same elements as on a single device:
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

// Stops recording while it exists.
class PauseScope {
 public:
  explicit PauseScope(bool training = false);
  ~PauseScope();
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  const ScopeState before_;
};

// Makes `array` a variable, whose gradient Backward writes to Grad(array). With kWrite each Backward replaces
// the gradient, with kAdd it adds to it. With kNull the array is not a variable.
void AttachGrad(NDArray& array, GradReq req = GradReq::kWrite);
// As AttachGrad, for a float32 table [rows, columns] of which a step reads few rows, by ops::Embedding or
// ops::EmbeddingBag. The gradient is row-sparse: the gradients of the rows that were read, so that no
// operation passes over the whole table. With kAdd, Backward adds its rows to the list. Backward throws
// Error(kFailedPrecondition) when another operation has used the table, whose gradient would be dense.
// AttachRowGrad throws Error(kInvalidArgument) for any other array.
void AttachRowGrad(NDArray& array, GradReq req = GradReq::kWrite);
// Returns the array that holds the gradient. Throws Error(kFailedPrecondition) when none is attached, and for
// a row-sparse one.
NDArray Grad(const NDArray& variable);
// Returns the row-sparse gradient: the sum of these rows, of which an id may have several. Backward gives ids
// in pinned memory, and rows on the table's context. Throws Error(kFailedPrecondition) unless AttachRowGrad
// was called.
std::vector<RowSparse> RowGrad(const NDArray& variable);
// Replaces the row-sparse gradient; without rows it is 0. Throws as RowGrad, and Error(kInvalidArgument) for
// rows that do not fit the table.
void SetRowGrad(const NDArray& variable, std::vector<RowSparse> rows);
// Returns how many Backward calls have written this variable's gradient. A Trainer compares the number to
// find stale gradients.
uint64_t GradVersion(const NDArray& variable);
// Sets a function that Backward calls as soon as it has issued all of the variable's gradient, before it
// issues the rest of the pass. A push that the hook issues then waits only for this gradient. A variable has
// one hook; an empty function removes it.
void SetGradHook(NDArray& variable, std::function<void()> hook);

// Computes the gradients of the sum of `heads`, each weighted by its head gradient, or by ones. Heads may lie
// on several contexts, whose graphs are issued alternately, so that the contexts work at the same time.
// Backward frees the recorded graphs; a second Backward through any part of them throws
// Error(kFailedPrecondition).
void Backward(const ArrayList& heads, const ArrayList& head_grads = {});
void Backward(const NDArray& head);  // the same for one head, without a list, which would take memory

}  // namespace sluice::autograd
