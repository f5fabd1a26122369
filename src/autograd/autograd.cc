// The tape: scopes that switch recording on and off, variables with their gradients and hooks, and Backward.
//
// The thread-local Tape holds the state of the innermost scope; the graph itself lies in AutogradNodes that
// arrays own (node.h), and operations add to it through record.h. Backward issues a node once all its uses
// have been issued, and a variable's hook as soon as the gradient is complete. It marks nodes only while it
// runs: every mark is reset when it ends, also by an exception. Programs and layers call these functions; a
// graph is used only on the thread that recorded it.
#include "sluice/autograd.h"

#include <algorithm>
#include <span>
#include <utility>

#include "autograd/issue_throttle.h"
#include "autograd/pass_scope.h"
#include "autograd/record.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::autograd {
namespace {

using internal::AutogradNode;
using NodePtr = std::shared_ptr<AutogradNode>;

// The lists that Backward works with. They are kept between calls to reuse their memory.
struct Lists {
  std::vector<AutogradNode*> nodes;  // every node that the heads reach, once
  std::vector<AutogradNode*> stack;
  std::vector<AutogradNode*> ready;
  std::vector<NDArray> out;
};

struct Tape {
  ScopeState state;
  uint64_t steps = 0;  // training scopes so far that named no step
  Lists lists;         // empty while a Backward runs, which takes them
  IssueThrottle throttle;
  bool in_pass = false;           // a PassScope exists
  bool in_last_addition = false;  // a LastAdditionScope exists

  // The state of a new scope. A training scope takes the next number as its step, unless a step was named.
  ScopeState Next(bool recording, bool training) {
    ScopeState next = state;
    next.recording = recording;
    next.training = training;
    if (training && !next.step_given) next.draw.step = steps++;
    return next;
  }
};
thread_local Tape tape;  // the only thread-local variable that the design allows

// Lists all nodes that the heads reach, and counts for each how many of those nodes use it (uses_left).
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

// Returns a + b in their type. Arithmetic is float32, so other types are converted there and back.
NDArray SumOf(const NDArray& a, const NDArray& b) {
  if (a.dtype() == DType::kFloat32) return a + b;
  return (a.AsType(DType::kFloat32) + b.AsType(DType::kFloat32)).AsType(a.dtype());
}

// Issues the write of a variable's complete gradient into its own memory, then calls the hook. The write
// comes first because the hook may push that memory.
void Deliver(AutogradNode& variable, const NDArray& gradient) {
  if (variable.req == GradReq::kAdd && variable.grad.dtype() == DType::kFloat32) {
    variable.grad += gradient;
  } else if (variable.req == GradReq::kAdd) {
    SumOf(variable.grad, gradient).CopyTo(&variable.grad);
  } else if (!gradient.SharesStorage(variable.grad) || gradient.offset() != variable.grad.offset()) {
    gradient.CopyTo(&variable.grad);
  }
  ++variable.version;
  tape.throttle.Note(variable.grad.storage()->LastWrite());
  if (variable.hook) variable.hook();
}

// As Deliver, for the rows that operations have given a variable. `gradient` is what others have.
void DeliverRows(AutogradNode& variable, const NDArray& gradient) {
  internal::RowGradient& rows = *variable.row_grad;
  if (gradient.valid()) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("Backward: a table of shape ", gradient.shape(),
                       " has a row-sparse gradient, and an operation other than Embedding and EmbeddingBag "
                       "has used it: give it a dense gradient (AttachGrad, no sparse_grad)"));
  }
  if (!std::exchange(rows.arrived, false)) return;
  if (variable.req == GradReq::kWrite) rows.rows.clear();
  for (RowSparse& arrived : rows.arriving) rows.rows.push_back(std::move(arrived));
  rows.arriving.clear();
  ++variable.version;
  if (!rows.rows.empty()) tape.throttle.Note(rows.rows.back().rows.storage()->LastWrite());
  if (variable.hook) variable.hook();
}

// Returns the parent's gradient memory when `from` may write to it directly: the parent is a kWrite variable
// whose only use left is this one. Otherwise returns no array.
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

// Throws Error(kInvalidArgument) when a head gradient differs from its head in shape, context or type.
void RequireFit(const NDArray& head, const NDArray& gradient) {
  if (!gradient.valid() || (gradient.shape() == head.shape() && gradient.context() == head.context() &&
                            gradient.dtype() == head.dtype()))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("Backward: a head is ", Name(head.dtype()), " ", head.shape(), " on ", head.context(),
                     ", its head gradient ", Name(gradient.dtype()), " ", gradient.shape(), " on ",
                     gradient.context()));
}

[[noreturn]] void ThrowChanged(std::string_view operation, const internal::Storage& storage) {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("Backward: ", operation, " was recorded on ", storage.size() / SizeOf(storage.dtype),
                     " elements of ", Name(storage.dtype), " on ", storage.context,
                     " that were written in place since (by an update, a hook, through a view or what Detach "
                     "returned): write to a Copy(), or after Backward, and give all heads to one Backward"));
}

// One call of Backward.
class Pass {
 public:
  explicit Pass(std::span<const NDArray> heads) : lists_(std::exchange(tape.lists, {})) {
    Reach(heads, &lists_);
  }
  // Resets all marks, also after an exception: the variables take part in the next pass.
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
    // The ready nodes are a queue, first in, first out, so that the graphs of several heads, on several
    // contexts, are issued alternately.
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
  // Checks all nodes before anything runs, so that a refused Backward has written no gradient.
  void RequireUnchanged() const {
    for (const AutogradNode* node : lists_.nodes) RequireUnchanged(*node);
  }
  // Is called again right before a node runs: a hook that writes another array than its own variable may have
  // written what this node needs.
  static void RequireUnchanged(const AutogradNode& node) {
    for (const internal::Kept& kept : node.kept) {
      if (!kept.Unchanged()) ThrowChanged(node.what, *kept.storage);
    }
  }

  void Step(AutogradNode& node) {
    const bool has_gradient = node.HasPending();
    const NDArray gradient = std::exchange(node.pending, NDArray());
    if (node.is_variable) {
      if (node.row_grad != nullptr) return DeliverRows(node, gradient);
      if (gradient.valid() && node.req != GradReq::kNull) Deliver(node, gradient);
      return;
    }
    auto& out = lists_.out;  // empty here: Step calls itself for variables only, which return above
    out.resize(node.parents.size());
    for (size_t i = 0; i < out.size(); ++i) {
      if (node.parents[i] != nullptr) out[i] = DirectTarget(*node.parents[i], node);
    }
    if (has_gradient && !node.freed) {
      RequireUnchanged(node);
      node.Backward(gradient, out);
    }
    // Variables come first, so that their hooks push before the rest of backward is issued.
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
PassScope::PassScope() : outer_(!std::exchange(tape.in_pass, true)) {
  if (outer_) tape.throttle.Await();
}
PassScope::~PassScope() {
  if (outer_) tape.in_pass = false;
}
LastAdditionScope::LastAdditionScope(bool last)
    : before_(std::exchange(tape.in_last_addition, last || tape.in_last_addition)) {}
LastAdditionScope::~LastAdditionScope() {
  tape.in_last_addition = before_;
}
bool InLastAddition() {
  return tape.in_last_addition;
}

PauseScope::PauseScope(bool training) : before_(tape.state) {
  tape.state = tape.Next(false, training);
}
PauseScope::~PauseScope() {
  tape.state = before_;
}

bool ShouldRecord(std::initializer_list<const NDArray*> inputs) {
  return tape.state.recording && std::any_of(inputs.begin(), inputs.end(),
                                             [](const NDArray* input) { return input->node() != nullptr; });
}

bool ShouldRecord(std::span<const NDArray> inputs) {
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
  if (variable.node()->row_grad != nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, StrCat("array of shape ", variable.shape(),
                                                       " has a row-sparse gradient: RowGrad returns it"));
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
  if (!tape.in_pass) tape.throttle.Await();
  const PauseScope pause;
  Pass(heads).Run(heads, head_grads);
}

}  // namespace

void Backward(const ArrayList& heads, const ArrayList& head_grads) {
  RunBackward(heads.arrays(), head_grads.arrays());
}

void Backward(const NDArray& head) {
  RunBackward({&head, 1}, {});
}

}  // namespace sluice::autograd
