#include "tensor/cpu/onednn_parts.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cpu {

using dnnl::memory;

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

Input::Input(const Engine& e, const memory::desc& users, const memory::desc& chosen)
    : e_(e), users_(e.Borrowed(users)), chosen_(users == chosen ? users_ : memory(chosen, e.engine)) {
  if (users == chosen) return;
  reorder_ = dnnl::reorder(users_, chosen_);
  arguments_ = {{DNNL_ARG_FROM, users_}, {DNNL_ARG_TO, chosen_}};
}

void Input::Bring(const float* users) {
  e_.Point(users_, users);
  if (reorder_) arguments_.Execute(reorder_, e_.stream);
}

Output::Output(const Engine& e, const memory::desc& users, const memory::desc& chosen)
    : e_(e), users_(e.Borrowed(users)), chosen_(users == chosen ? users_ : memory(chosen, e.engine)) {
  if (users == chosen) return;
  reorder_ = dnnl::reorder(chosen_, users_);
  arguments_ = {{DNNL_ARG_FROM, chosen_}, {DNNL_ARG_TO, users_}};
}

void Output::Deliver() {
  if (reorder_) arguments_.Execute(reorder_, e_.stream);
}

}  // namespace sluice::cpu
