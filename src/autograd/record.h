// For operations: recording what to do backwards.
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

// Whether any of the inputs is followed and the tape runs.
bool Follows(std::initializer_list<const NDArray*> inputs);
bool Follows(std::span<const NDArray> inputs);

// A node with the operation's own function, called as Base::Call does.
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

// backward(const NDArray& grad, std::vector<NDArray>& out), as AutogradNode::Backward.
class NodeOfOne : public internal::AutogradNode {
 protected:
  template <typename BackwardFn>
  void Call(BackwardFn& backward, const NDArray& grad, std::vector<NDArray>& out) {
    backward(grad, out);
  }
};

// In the memory for records of the output's device.
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

// As MakeNode, behind the operation's inputs.
template <typename Base, typename Inputs, typename BackwardFn>
auto MakeNodeBehind(const NDArray& output, const Inputs& inputs, BackwardFn backward) {
  auto node = MakeNode<Base>(output, std::move(backward));
  for (const auto& input : inputs) node->parents.push_back(Dereferenced(input).node());
  return node;
}

// What of the caller's an operation's backward reads: Backward refuses to run when it was written since.
// Null: not this time. Memory that only the operation has need not be here.
struct Keeps {
  std::string_view what;  // the operation, for the message; a literal
  std::initializer_list<const NDArray*> arrays;
};
void Keep(internal::AutogradNode& node, const Keeps& keeps);

// Makes `output` the result of an operation on `inputs`, if Follows.
template <typename BackwardFn>
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, const Keeps& keeps,
            BackwardFn backward) {
  if (!Follows(inputs)) return;
  auto node = MakeNodeBehind<NodeOfOne>(output, inputs, std::move(backward));
  Keep(*node, keeps);
  output.set_node(std::move(node));
}
template <typename BackwardFn>
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, BackwardFn backward) {
  Record(output, inputs, Keeps{}, std::move(backward));
}
template <typename BackwardFn>
void Record(NDArray& output, std::span<const NDArray> inputs, BackwardFn backward) {
  if (Follows(inputs)) output.set_node(MakeNodeBehind<NodeOfOne>(output, inputs, std::move(backward)));
}

// --- Operations with several results ---
// The first one's node runs their backward; those of the further ones hand it their gradients.

inline constexpr size_t kMostFurther = 2;
using FurtherGrads = std::array<NDArray, kMostFurther>;

class NodeOfSeveral : public internal::AutogradNode {
 public:
  bool HasPending() const override { return pending.valid() || further_[0].valid() || further_[1].valid(); }
  void DropPending() override {
    pending = NDArray();
    further_ = {};
  }
  void Take(size_t which, const NDArray& grad) { further_.at(which) = grad; }

 protected:
  // backward(const NDArray& grad, const FurtherGrads& further, std::vector<NDArray>& out).
  template <typename BackwardFn>
  void Call(BackwardFn& backward, const NDArray& grad, std::vector<NDArray>& out) {
    backward(grad, std::exchange(further_, {}), out);
  }

 private:
  FurtherGrads further_;
};

// As Record, for `output` and at most kMostFurther others, of which some may be no array; a result that
// nothing came back to has no gradient.
template <typename BackwardFn>
void RecordSeveral(NDArray& output, std::initializer_list<NDArray*> further,
                   std::initializer_list<const NDArray*> inputs, const Keeps& keeps, BackwardFn backward) {
  if (!Follows(inputs)) return;
  auto node = MakeNodeBehind<NodeOfSeveral>(output, inputs, std::move(backward));
  Keep(*node, keeps);
  output.set_node(node);
  for (size_t i = 0; i < further.size(); ++i) {
    NDArray& result = *further.begin()[i];
    if (!result.valid()) continue;
    const auto hand_on = [first = node.get(), i](const NDArray& grad, std::vector<NDArray>&) {
      first->Take(i, grad);
    };
    auto hands_on = MakeNode<NodeOfOne>(result, hand_on);
    hands_on->parents.push_back(node);  // keeps it
    result.set_node(std::move(hands_on));
  }
}

}  // namespace sluice::autograd
