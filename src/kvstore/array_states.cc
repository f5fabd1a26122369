// ArrayStates: states on the host are buffers, as servers have them; states on a card are arrays of one axis.
// LocalStore and a Trainer's own updates have one for each weight, on the program's threads.
// Invariant: the first values of all states on a card have come. An update writes states whatever an earlier
// one has met, since one that fails leaves them alone, so it would not hear that they never had a value.
#include "kvstore/array_states.h"

#include <cstring>
#include <utility>

namespace sluice::kvstore {
namespace {

NDArray ArrayOf(const Buffer& values, DType dtype, Context context) {
  NDArray array = NDArray::Empty({static_cast<int64_t>(values.size() / SizeOf(dtype))}, context, dtype);
  array.SetBytes(values.bytes());
  return array;
}

Buffer BufferOf(const NDArray& array) {
  Buffer buffer(static_cast<size_t>(array.size()) * SizeOf(array.dtype()));
  internal::CopyToHost(array, array.dtype(), buffer.bytes());
  return buffer;
}

}  // namespace

void ArrayStates::Fit(const Optimizer* optimizer, DType weight, int64_t length, Context context) {
  if (context.kind == DeviceKind::kGpu) return FitCard(optimizer, weight, length, context);
  MoveToHost();
  FitStates(optimizer, weight, static_cast<size_t>(length), &host_);
}

void ArrayStates::FitCard(const Optimizer* optimizer, DType weight, int64_t length, Context context) {
  const DType dtype = StateType(weight);
  if (!host_.arrays.empty()) {
    std::vector<NDArray> moved;
    for (const auto& array : host_.arrays) moved.push_back(ArrayOf(*array, dtype, context));
    card_ = std::move(moved);
    names_ = std::exchange(host_, States()).names;
  }
  for (NDArray& array : card_) {
    if (array.context() == context) continue;
    const NDArray moved = array.AsInContext(context);
    moved.WaitToRead();
    array = moved;
  }
  std::vector<std::string_view> names;
  if (optimizer != nullptr) names = StateNames(*optimizer, weight);
  if (names == names_) return;
  std::vector<NDArray> arrays;
  for (const std::optional<size_t> kept : KeptStates(names_, names)) {
    arrays.push_back(kept ? card_[*kept] : NDArray({length}, context, dtype));
    if (!kept) arrays.back().WaitToRead();
  }
  card_ = std::move(arrays);
  names_ = std::move(names);
}

void ArrayStates::MoveToHost() {
  if (card_.empty()) return;
  host_.names = std::move(names_);
  for (const NDArray& array : std::exchange(card_, {}))
    host_.arrays.push_back(std::make_shared<Buffer>(BufferOf(array)));
}

std::vector<Buffer> ArrayStates::Copies() const {
  std::vector<Buffer> copies;
  for (const auto& array : host_.arrays) {
    Buffer& copy = copies.emplace_back(array->size());
    std::memcpy(copy.data(), array->data(), copy.size());
  }
  for (const NDArray& array : card_) copies.push_back(BufferOf(array));
  return copies;
}

void ArrayStates::Set(const std::vector<Buffer>& values) {
  for (size_t i = 0; i < host_.arrays.size(); ++i)
    std::memcpy(host_.arrays[i]->data(), values[i].data(), values[i].size());
  for (size_t i = 0; i < card_.size(); ++i) card_[i].SetBytes(values[i].bytes());
}

}  // namespace sluice::kvstore
