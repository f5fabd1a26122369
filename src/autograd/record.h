// For operations: recording what to do backwards.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "base/pool_allocator.h"
#include "tensor/storage.h"

namespace sluice::autograd {

// Whether any of the inputs is followed and the tape runs.
bool Follows(std::initializer_list<const NDArray*> inputs);
bool Follows(const std::vector<NDArray>& inputs);

// A node with the operation's own function: backward(const NDArray& grad, std::vector<NDArray>& out), as
// AutogradNode::Backward.
template <typename BackwardFn>
class RecordedNode final : public internal::AutogradNode {
 public:
  explicit RecordedNode(BackwardFn backward) : backward_(std::move(backward)) {}
  void Backward(const NDArray& grad, std::vector<NDArray>& out) override { (*backward_)(grad, out); }
  void Free() override {
    backward_.reset();
    freed = true;
  }

 private:
  std::optional<BackwardFn> backward_;
};

// In the memory for records of the output's device.
template <typename BackwardFn>
std::shared_ptr<internal::AutogradNode> MakeNode(const NDArray& output, BackwardFn backward) {
  using Node = RecordedNode<BackwardFn>;
  return std::allocate_shared<Node>(MemoryOf<Node>(output.storage()->device->records()), std::move(backward));
}

// Makes `output` the result of an operation on `inputs`, if Follows.
template <typename BackwardFn>
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, BackwardFn backward) {
  if (!Follows(inputs)) return;
  auto node = MakeNode(output, std::move(backward));
  for (const NDArray* input : inputs) node->parents.push_back(input->node());
  output.set_node(std::move(node));
}
template <typename BackwardFn>
void Record(NDArray& output, const std::vector<NDArray>& inputs, BackwardFn backward) {
  if (!Follows(inputs)) return;
  auto node = MakeNode(output, std::move(backward));
  for (const NDArray& input : inputs) node->parents.push_back(input.node());
  output.set_node(std::move(node));
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
  FurtherGrads TakeFurther() { return std::exchange(further_, {}); }

 private:
  FurtherGrads further_;
};

template <typename BackwardFn>
class RecordedNodeOfSeveral final : public NodeOfSeveral {
 public:
  explicit RecordedNodeOfSeveral(BackwardFn backward) : backward_(std::move(backward)) {}
  void Backward(const NDArray& grad, std::vector<NDArray>& out) override {
    (*backward_)(grad, TakeFurther(), out);
  }
  void Free() override {
    backward_.reset();
    freed = true;
  }

 private:
  std::optional<BackwardFn> backward_;
};

// As Record, for `output` and at most kMostFurther others, of which some may be no array:
// backward(const NDArray& grad, const FurtherGrads& further, std::vector<NDArray>& out), where a result that
// nothing came back to has no array.
template <typename BackwardFn>
void RecordSeveral(NDArray& output, std::initializer_list<NDArray*> further,
                   std::initializer_list<const NDArray*> inputs, BackwardFn backward) {
  if (!Follows(inputs)) return;
  using Node = RecordedNodeOfSeveral<BackwardFn>;
  auto node =
      std::allocate_shared<Node>(MemoryOf<Node>(output.storage()->device->records()), std::move(backward));
  for (const NDArray* input : inputs) node->parents.push_back(input->node());
  output.set_node(node);
  for (size_t i = 0; i < further.size(); ++i) {
    NDArray& result = *further.begin()[i];
    if (!result.valid()) continue;
    auto hands_on = MakeNode(result, [first = node.get(), i](const NDArray& grad, std::vector<NDArray>&) {
      first->Take(i, grad);
    });
    hands_on->parents.push_back(node);  // keeps it
    result.set_node(std::move(hands_on));
  }
}

}  // namespace sluice::autograd
