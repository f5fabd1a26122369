#include "sluice/autograd.h"

#include <algorithm>
#include <span>
#include <utility>

#include "autograd/issue_throttle.h"
#include "autograd/record.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::autograd {
namespace {

using internal::AutogradNode;
using NodePtr = std::shared_ptr<AutogradNode>;

// What Backward works with; kept between calls for its room.
struct Lists {
  std::vector<AutogradNode*> nodes;  // that the heads reach, each once
  std::vector<AutogradNode*> stack;
  std::vector<AutogradNode*> ready;
  std::vector<NDArray> out;
};

struct Tape {
  ScopeState state;
  uint64_t steps = 0;  // that no scope has named
  Lists lists;         // of no call that runs
  IssueThrottle pace;

  // Where a scope that names no step draws from.
  ScopeState Next(bool recording, bool training) {
    ScopeState next = state;
    next.recording = recording;
    next.training = training;
    if (training && !next.step_given) next.draw.step = steps++;
    return next;
  }
};
thread_local Tape tape;  // the one the design allows

void Reach(std::span<const NDArray> heads, Lists* lists) {
  auto &nodes = lists->nodes, &stack = lists->stack;
  for (const NDArray& head : heads) stack.push_back(head.node().get());
  while (!stack.empty()) {
    AutogradNode* node = stack.back();
    stack.pop_back();
    if (node->visited) continue;
    node->visited = true;
    nodes.push_back(node);
    for (const NodePtr& parent : node->parents) {
      if (parent == nullptr) continue;
      ++parent->uses_left;
      stack.push_back(parent.get());
    }
  }
}

// Arithmetic is float32.
NDArray SumOf(const NDArray& a, const NDArray& b) {
  if (a.dtype() == DType::kFloat32) return a + b;
  return (a.AsType(DType::kFloat32) + b.AsType(DType::kFloat32)).AsType(a.dtype());
}

// The variable's gradient is complete: it is where it belongs before anything else is issued.
void Deliver(AutogradNode& variable, const NDArray& gradient) {
  if (variable.req == GradReq::kAdd && variable.grad.dtype() == DType::kFloat32) {
    variable.grad += gradient;
  } else if (variable.req == GradReq::kAdd) {
    SumOf(variable.grad, gradient).CopyTo(&variable.grad);
  } else if (!gradient.SharesStorage(variable.grad) || gradient.offset() != variable.grad.offset()) {
    gradient.CopyTo(&variable.grad);
  }
  ++variable.version;
  tape.pace.Note(variable.grad.storage()->LastWrite());
  if (variable.hook) variable.hook();
}

// Memory that the parent's gradient may be written to directly: it is a variable with this one use.
NDArray DirectTarget(const AutogradNode& parent, const AutogradNode& from) {
  if (!parent.is_variable || parent.req != GradReq::kWrite || parent.uses_left != 1 || parent.pending.valid())
    return {};
  return std::count_if(from.parents.begin(), from.parents.end(),
                       [&](const NodePtr& p) { return p.get() == &parent; }) == 1
             ? parent.grad
             : NDArray();
}

void Accumulate(AutogradNode& node, const NDArray& gradient) {
  node.pending = node.pending.valid() ? SumOf(node.pending, gradient) : gradient;
}

// A head gradient that is given must look like its head.
void RequireFit(const NDArray& head, const NDArray& gradient) {
  if (!gradient.valid() || (gradient.shape() == head.shape() && gradient.context() == head.context() &&
                            gradient.dtype() == head.dtype()))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("Backward: a head is ", Name(head.dtype()), " ", head.shape(), " on ", head.context(),
                     ", its head gradient ", Name(gradient.dtype()), " ", gradient.shape(), " on ",
                     gradient.context()));
}

[[noreturn]] void RefuseChanged(std::string_view operation, const internal::Storage& storage) {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("Backward: ", operation, " was recorded on ", storage.size() / SizeOf(storage.dtype),
                     " elements of ", Name(storage.dtype), " on ", storage.context,
                     " that were written in place since (by an update, a hook, through a view or what Detach "
                     "returned): write to a Copy(), or after Backward, and give all heads to one Backward"));
}

class Pass {
 public:
  explicit Pass(std::span<const NDArray> heads) : lists_(std::exchange(tape.lists, {})) {
    Reach(heads, &lists_);
  }
  // However it ended: the variables take part in the next one.
  ~Pass() {
    for (AutogradNode* node : lists_.nodes) {
      node->visited = false;
      node->uses_left = 0;
      node->DropPending();
    }
    for (auto* list : {&lists_.nodes, &lists_.stack, &lists_.ready}) list->clear();
    lists_.out.clear();
    tape.lists = std::move(lists_);
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void Run(std::span<const NDArray> heads, std::span<const NDArray> head_grads) {
    RequireUnused();
    RequireUnchanged();
    for (size_t i = 0; i < heads.size(); ++i) {
      NDArray gradient = i < head_grads.size() ? head_grads[i] : NDArray();
      if (!gradient.valid()) {
        gradient = NDArray::Empty(heads[i].shape(), heads[i].context());
        gradient.Fill(1);
      }
      Accumulate(*heads[i].node(), gradient);
    }
    // First in, first out: the graphs of several heads, on several contexts, are issued in turn.
    for (const NDArray& head : heads) {
      AutogradNode* node = head.node().get();
      auto& ready = lists_.ready;
      if (node->uses_left == 0 && std::find(ready.begin(), ready.end(), node) == ready.end())
        ready.push_back(node);
    }
    for (size_t next = 0; next < lists_.ready.size(); ++next) Step(*lists_.ready[next]);
  }

 private:
  void RequireUnused() const {
    for (const AutogradNode* node : lists_.nodes) {
      if (!node->freed) continue;
      throw Error(ErrorCode::kFailedPrecondition,
                  "Backward: a part of this graph was freed by an earlier Backward: record it again, or give "
                  "all heads to one Backward");
    }
  }
  // Before anything runs: then no gradient is written.
  void RequireUnchanged() const {
    for (const AutogradNode* node : lists_.nodes) RequireUnchanged(*node);
  }
  // And before its turn: a hook may write what others need, where it is not its own variable's.
  static void RequireUnchanged(const AutogradNode& node) {
    for (const internal::Kept& kept : node.kept) {
      if (!kept.Unchanged()) RefuseChanged(node.what, *kept.storage);
    }
  }

  void Step(AutogradNode& node) {
    const bool has_gradient = node.HasPending();
    const NDArray gradient = std::exchange(node.pending, NDArray());
    if (node.is_variable) {
      if (gradient.valid() && node.req != GradReq::kNull) Deliver(node, gradient);
      return;
    }
    auto& out = lists_.out;  // empty: only variables take their step within another's
    out.resize(node.parents.size());
    for (size_t i = 0; i < out.size(); ++i) {
      if (node.parents[i] != nullptr) out[i] = DirectTarget(*node.parents[i], node);
    }
    if (has_gradient && !node.freed) {
      RequireUnchanged(node);
      node.Backward(gradient, out);
    }
    // Variables first: their hooks push before the rest of backward is issued.
    for (const bool variables : {true, false}) {
      for (size_t i = 0; i < out.size(); ++i) {
        AutogradNode* parent = node.parents[i].get();
        if (parent == nullptr || parent->is_variable != variables) continue;
        if (has_gradient && out[i].valid()) Accumulate(*parent, out[i]);
        if (--parent->uses_left > 0) continue;
        if (variables) {
          Step(*parent);
        } else {
          lists_.ready.push_back(parent);
        }
      }
    }
    out.clear();
    node.Free();
  }

  Lists lists_;
};

}  // namespace

bool IsRecording() {
  return tape.state.recording;
}
bool IsTraining() {
  return tape.state.training;
}

DrawPosition CurrentDraw() {
  return tape.state.draw;
}

RecordScope::RecordScope(bool training) : before_(tape.state) {
  tape.state = tape.Next(true, training);
}
RecordScope::RecordScope(const RecordOptions& options) : before_(tape.state) {
  tape.state.step_given = options.step.has_value();
  tape.state = tape.Next(true, options.training);
  tape.state.draw.seed = options.seed;
  if (options.step) tape.state.draw.step = *options.step;
}
RecordScope::~RecordScope() {
  tape.state = before_;
}
SampleScope::SampleScope(uint64_t first_sample) : before_(tape.state.draw.first_sample) {
  tape.state.draw.first_sample = first_sample;
}
SampleScope::~SampleScope() {
  tape.state.draw.first_sample = before_;
}
PauseScope::PauseScope(bool training) : before_(tape.state) {
  tape.state = tape.Next(false, training);
}
PauseScope::~PauseScope() {
  tape.state = before_;
}

bool Follows(std::initializer_list<const NDArray*> inputs) {
  return tape.state.recording && std::any_of(inputs.begin(), inputs.end(),
                                             [](const NDArray* input) { return input->node() != nullptr; });
}

bool Follows(std::span<const NDArray> inputs) {
  return tape.state.recording && std::any_of(inputs.begin(), inputs.end(),
                                             [](const NDArray& input) { return input.node() != nullptr; });
}

void Keep(AutogradNode& node, const Keeps& keeps) {
  node.what = keeps.what;
  for (const NDArray* array : keeps.arrays) {
    if (array == nullptr || !array->valid()) continue;
    const auto& storage = array->storage();
    node.kept.push_back({storage, storage->writes.load(std::memory_order_relaxed)});
  }
}

void AttachGrad(NDArray& array, GradReq req) {
  internal::RequireArray("AttachGrad", "the array", array);
  auto node = std::make_shared<AutogradNode>();
  node->is_variable = true;
  node->req = req;
  if (req != GradReq::kNull) node->grad = NDArray(array.shape(), array.context(), array.dtype());
  array.set_node(req == GradReq::kNull ? nullptr : std::move(node));
}

NDArray Grad(const NDArray& variable) {
  if (variable.node() == nullptr || !variable.node()->is_variable) {
    throw Error(ErrorCode::kFailedPrecondition, StrCat("array of shape ", variable.shape(),
                                                       " has no gradient: call AttachGrad before recording"));
  }
  return variable.node()->grad;
}

uint64_t GradVersion(const NDArray& variable) {
  return variable.node() == nullptr ? 0 : variable.node()->version;
}

void SetGradHook(NDArray& variable, std::function<void()> hook) {
  if (variable.node() == nullptr || !variable.node()->is_variable) {
    throw Error(ErrorCode::kFailedPrecondition, "a gradient hook needs a variable: call AttachGrad first");
  }
  variable.node()->hook = std::move(hook);
}

namespace {

void RunBackward(std::span<const NDArray> heads, std::span<const NDArray> head_grads) {
  if (!head_grads.empty() && head_grads.size() != heads.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Backward: ", heads.size(), " heads and ", head_grads.size(), " head gradients"));
  }
  for (const NDArray& head : heads) {
    if (head.node() == nullptr) {
      throw Error(
          ErrorCode::kFailedPrecondition,
          "Backward: a head was not recorded: compute it inside a RecordScope, from arrays with AttachGrad");
    }
  }
  for (size_t i = 0; i < head_grads.size(); ++i) RequireFit(heads[i], head_grads[i]);
  tape.pace.Await();
  const PauseScope pause;
  Pass(heads).Run(heads, head_grads);
}

}  // namespace

void Backward(const std::vector<NDArray>& heads, const std::vector<NDArray>& head_grads) {
  RunBackward(heads, head_grads);
}
void Backward(const NDArray& head) {
  RunBackward({&head, 1}, {});
}

}  // namespace sluice::autograd
