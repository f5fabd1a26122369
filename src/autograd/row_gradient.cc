// Row-sparse gradients of variables: attaching, reading and adding to them (sluice/autograd.h, record.h).
//
// A variable with a row_grad (node.h) has no dense gradient. Operations add rows while Backward runs, which
// delivers them (autograd.cc) once all of them have come; a list keeps the arrays alive until the next
// Backward replaces it. All functions run on the thread that recorded the graph.
#include <utility>

#include "autograd/record.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "tensor/storage.h"

namespace sluice::autograd {

void AttachRowGrad(NDArray& array, GradReq req) {
  internal::RequireArray("AttachRowGrad", "the array", array);
  if (array.shape().ndim() != 2 || array.dtype() != DType::kFloat32) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("AttachRowGrad: a table is float32 [rows, columns]; the array is ",
                       Name(array.dtype()), " ", array.shape()));
  }
  if (req == GradReq::kNull) return array.set_node(nullptr);
  auto node = std::make_shared<internal::AutogradNode>();
  node->is_variable = true;
  node->req = req;
  node->row_grad = std::make_unique<internal::RowGradient>();
  array.set_node(std::move(node));
}

namespace {

// Throws Error(kInvalidArgument) unless the rows are some of a table of that shape.
void RequireFit(const Shape& table, const RowSparse& part) {
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("SetRowGrad of a table ", table, ": ", why...));
  };
  if (!part.ids.valid() || !part.rows.valid()) refuse("ids or rows are no array");
  if (part.ids.dtype() != DType::kInt64 && part.ids.dtype() != DType::kInt32)
    refuse("ids are ", Name(part.ids.dtype()), "; int64 or int32 is expected");
  const Shape& ids = part.ids.shape();
  if (ids.ndim() == Shape::kMaxAxes) refuse("ids have ", ids.ndim(), " axes");
  if (part.rows.dtype() != DType::kFloat32 || part.rows.shape() != ids.WithAxis(ids.ndim(), table[1]))
    refuse("rows are ", Name(part.rows.dtype()), " ", part.rows.shape(), " for ids ", ids,
           "; float32 rows are expected, one for each id");
}

internal::RowGradient& RowGradientOf(const NDArray& variable) {
  const std::shared_ptr<internal::AutogradNode> node = RowVariable(variable);
  if (node == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, StrCat("array of shape ", variable.shape(),
                                                       " has no row-sparse gradient: call AttachRowGrad"));
  }
  return *node->row_grad;
}

}  // namespace

std::vector<RowSparse> RowGrad(const NDArray& variable) {
  return RowGradientOf(variable).rows;
}

void SetRowGrad(const NDArray& variable, std::vector<RowSparse> rows) {
  RowGradientOf(variable);
  for (const RowSparse& part : rows) RequireFit(variable.shape(), part);
  RowGradientOf(variable).rows = std::move(rows);
}

std::shared_ptr<internal::AutogradNode> RowVariable(const NDArray& array) {
  return array.node() != nullptr && array.node()->row_grad != nullptr ? array.node() : nullptr;
}

void AddRows(internal::AutogradNode& variable, RowSparse rows) {
  variable.row_grad->arriving.push_back(std::move(rows));
  variable.row_grad->arrived = true;
}

}  // namespace sluice::autograd
