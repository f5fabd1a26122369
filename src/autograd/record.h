// How operations record their backward functions.
//
//   NDArray out = ...;  // launched already
//   Record(out, {&x}, [scale](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad * scale; });
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "base/pool_allocator.h"
#include "tensor/storage.h"

namespace sluice::autograd {

// Whether the tape records and any of the inputs has a node.
bool ShouldRecord(std::initializer_list<const NDArray*> inputs);
bool ShouldRecord(std::span<const NDArray> inputs);

// A node that owns the operation's backward function; Base::Call calls it with Base's arguments.
template <typename Base, typename BackwardFn>
class NodeWith final : public Base {
 public:
  explicit NodeWith(BackwardFn backward) : backward_(std::move(backward)) {}
  void Backward(const NDArray& grad, std::vector<NDArray>& out) override {
    this->Call(*backward_, grad, out);
  }
  void Free() override {
    backward_.reset();
    this->kept.clear();
    this->freed = true;
  }

 private:
  std::optional<BackwardFn> backward_;
};

// The node of an operation with one result. Its function is backward(const NDArray& grad,
// std::vector<NDArray>& out), with the arguments of AutogradNode::Backward.
class SingleResultNode : public internal::AutogradNode {
 protected:
  template <typename BackwardFn>
  void Call(BackwardFn& backward, const NDArray& grad, std::vector<NDArray>& out) {
    backward(grad, out);
  }
};

// Makes a node in the output device's memory for records (Device::records).
template <typename Base, typename BackwardFn>
auto MakeNode(const NDArray& output, BackwardFn backward) {
  using Node = NodeWith<Base, BackwardFn>;
  return std::allocate_shared<Node>(MemoryOf<Node>(output.storage()->device->records()), std::move(backward));
}

inline const NDArray& Dereferenced(const NDArray& array) {
  return array;
}
inline const NDArray& Dereferenced(const NDArray* array) {
  return *array;
}

// As MakeNode; the nodes of the operation's inputs become its parents.
template <typename Base, typename Inputs, typename BackwardFn>
auto MakeNodeWithInputs(const NDArray& output, const Inputs& inputs, BackwardFn backward) {
  auto node = MakeNode<Base>(output, std::move(backward));
  for (const auto& input : inputs) node->parents.push_back(Dereferenced(input).node());
  return node;
}

// Returns the variable behind `array` if its gradient is row-sparse, else null.
std::shared_ptr<internal::AutogradNode> RowVariable(const NDArray& array);
// Gives such a variable rows of its gradient, within Backward.
void AddRows(internal::AutogradNode& variable, RowSparse rows);

// The caller's arrays that an operation's backward reads. Backward throws Error(kFailedPrecondition) when one
// was written after it was recorded. Null pointers are skipped. Arrays that only the operation holds need not
// be listed.
struct Keeps {
  std::string_view what;  // the operation's name in the message; a string literal
  std::initializer_list<const NDArray*> arrays;
};
void Keep(internal::AutogradNode& node, const Keeps& keeps);

// Makes `output` the result of an operation on `inputs`, if ShouldRecord(inputs); else does nothing.
template <typename BackwardFn>
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, const Keeps& keeps,
            BackwardFn backward) {
  if (!ShouldRecord(inputs)) return;
  auto node = MakeNodeWithInputs<SingleResultNode>(output, inputs, std::move(backward));
  Keep(*node, keeps);
  output.set_node(std::move(node));
}
template <typename BackwardFn>
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, BackwardFn backward) {
  Record(output, inputs, Keeps{}, std::move(backward));
}
template <typename BackwardFn>
void Record(NDArray& output, std::span<const NDArray> inputs, BackwardFn backward) {
  if (ShouldRecord(inputs))
    output.set_node(MakeNodeWithInputs<SingleResultNode>(output, inputs, std::move(backward)));
}

// --- Operations with several results ---
// The first result's node runs the backward of all; the nodes of further results only pass their gradients to
// it.

inline constexpr size_t kMostFurther = 2;
using FurtherGrads = std::array<NDArray, kMostFurther>;

class MultiResultNode : public internal::AutogradNode {
 public:
  bool HasPending() const override { return pending.valid() || further_[0].valid() || further_[1].valid(); }
  void DropPending() override {
    pending = NDArray();
    further_ = {};
  }
  void Take(size_t which, const NDArray& grad) { further_.at(which) = grad; }

 protected:
  // The operation's function is backward(const NDArray& grad, const FurtherGrads& further,
  // std::vector<NDArray>& out).
  template <typename BackwardFn>
  void Call(BackwardFn& backward, const NDArray& grad, std::vector<NDArray>& out) {
    backward(grad, std::exchange(further_, {}), out);
  }

 private:
  FurtherGrads further_;
};

// As Record, for `output` and at most kMostFurther further results, some of which may be no array. Backward
// gets no array as the gradient of a result that received none.
template <typename BackwardFn>
void RecordSeveral(NDArray& output, std::initializer_list<NDArray*> further,
                   std::initializer_list<const NDArray*> inputs, const Keeps& keeps, BackwardFn backward) {
  if (!ShouldRecord(inputs)) return;
  auto node = MakeNodeWithInputs<MultiResultNode>(output, inputs, std::move(backward));
  Keep(*node, keeps);
  output.set_node(node);
  for (size_t i = 0; i < further.size(); ++i) {
    NDArray& result = *further.begin()[i];
    if (!result.valid()) continue;
    const auto hand_on = [first = node.get(), i](const NDArray& grad, std::vector<NDArray>&) {
      first->Take(i, grad);
    };
    auto forwarder = MakeNode<SingleResultNode>(result, hand_on);
    forwarder->parents.push_back(node);  // keeps `first` alive, and makes it run after this node
    result.set_node(std::move(forwarder));
  }
}

}  // namespace sluice::autograd
