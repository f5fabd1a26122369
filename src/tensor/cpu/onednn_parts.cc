#include "tensor/cpu/onednn_parts.h"

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/types/half.h"

namespace sluice::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

// The number of elements that are worth waking another thread for.
constexpr int64_t kMinRounded = int64_t{8} << 10;

Arguments::Arguments(std::initializer_list<std::pair<int, memory>> arguments) {
  for (const auto& [name, memory] : arguments) Add(name, memory);
}

void Arguments::Add(int name, const memory& memory) {
  list_.push_back({name, memory.get()});
  held_.push_back(memory);
}

void Arguments::Execute(const dnnl::primitive& primitive, const dnnl::stream& stream) const {
  const auto status =
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(list_.size()), list_.data());
  if (status != dnnl_success)
    throw Error(ErrorCode::kUnavailable, StrCat("oneDNN could not compute it: status ", status));
}

Reorders::Reorders(const Engine& e, const memory& from, const memory& to) {
  const memory::dims axes = from.get_desc().dims(), others = to.get_desc().dims();
  if (axes == others) {
    Add(from, to);
    return;
  }
  const memory packed({axes, kFloat, Tag::abcd}, e.engine);
  Add(from, packed);
  Add(memory({others, kFloat, Tag::abcd}, e.engine, packed.get_data_handle()), to);
}

void Reorders::Add(const memory& from, const memory& to) {
  steps_.push_back({dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
}

void Reorders::Execute(const dnnl::stream& stream) const {
  for (const auto& [reorder, arguments] : steps_) arguments.Execute(reorder, stream);
}

Input::Input(const Engine& e, const memory::desc& users, const memory::desc& chosen)
    : e_(e), users_(e.Unbound(users)), chosen_(users == chosen ? users_ : memory(chosen, e.engine)) {
  memory::desc rounded = users;
  rounded.data.data_type = dnnl_bf16;
  if (chosen == rounded) {
    elements_to_round_ = static_cast<int64_t>(users.get_size() / sizeof(float));
  } else if (users != chosen) {
    reorders_ = Reorders(e, users_, chosen_);
  }
}

// Rounding is done here because oneDNN 2.6 does it on one thread.
void Input::Bring(const float* users) {
  e_.Point(users_, users);
  auto* const rounded = static_cast<std::byte*>(chosen_.get_data_handle());
  ParallelFor(elements_to_round_, kMinRounded, [=](int64_t i, int64_t end) {
    FloatToBFloat16(users + i, rounded + 2 * i, static_cast<size_t>(end - i));
  });
  reorders_.Execute(e_.stream);
}

Output::Output(const Engine& e, const memory::desc& users, const memory::desc& chosen)
    : e_(e), users_(e.Unbound(users)), chosen_(users == chosen ? users_ : memory(chosen, e.engine)) {
  if (users != chosen) reorders_ = Reorders(e, chosen_, users_);
}

void Output::Deliver() {
  reorders_.Execute(e_.stream);
}

}  // namespace sluice::cpu
