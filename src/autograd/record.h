// For operations: recording what to do backwards.
#pragma once

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

}  // namespace sluice::autograd
