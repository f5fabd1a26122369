// What the primitives of oneDNN are put together from; for cpu/onednn*.cc.
#pragma once

#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

constexpr auto kFloat = dnnl::memory::data_type::f32;

// What the factors of products are rounded to.
inline dnnl::memory::data_type FactorType(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBFloat16 ? dnnl::memory::data_type::bf16 : kFloat;
}

struct Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  // Memory of the caller's, which each run names.
  dnnl::memory Unbound(const dnnl::memory::desc& desc) const { return {desc, engine, DNNL_MEMORY_NONE}; }
  void Point(dnnl::memory& at, const float* data) const {
    at.set_data_handle(const_cast<float*>(data), stream);
  }
};

// What a primitive works on, named once: oneDNN's own `execute` would copy the list every time.
class Arguments {
 public:
  Arguments() = default;
  Arguments(std::initializer_list<std::pair<int, dnnl::memory>> arguments);
  void Add(int name, const dnnl::memory& memory);
  void Execute(const dnnl::primitive& primitive, const dnnl::stream& stream) const;

 private:
  std::vector<dnnl_exec_arg_t> list_;
  std::vector<dnnl::memory> held_;
};

// A copy into another layout or type. Where both have four axes, those may be cut differently: the elements
// are the same when each is read in the order of its axes.
class Reorders {
 public:
  Reorders() = default;  // none
  Reorders(const Engine& e, const dnnl::memory& from, const dnnl::memory& to);
  void Execute(const dnnl::stream& stream) const;

 private:
  void Add(const dnnl::memory& from, const dnnl::memory& to);

  std::vector<std::pair<dnnl::reorder, Arguments>> steps_;
};

// An array of the caller's, float32 in the caller's layout, and what a primitive reads in its place: the same
// memory, or a copy in the layout and type that the primitive chose, with other axes perhaps.
class Input {
 public:
  Input(const Engine& e, const dnnl::memory::desc& users, const dnnl::memory::desc& chosen);
  const dnnl::memory& chosen() const { return chosen_; }
  void Bring(const float* users);

 private:
  const Engine& e_;
  dnnl::memory users_, chosen_;    // the same, or differing:
  int64_t elements_to_round_ = 0;  // in type alone
  Reorders reorders_;              // in layout
};

// Likewise what a primitive makes.
class Output {
 public:
  Output(const Engine& e, const dnnl::memory::desc& users, const dnnl::memory::desc& chosen);
  const dnnl::memory& chosen() const { return chosen_; }
  // Before the primitive runs, and after.
  void Point(float* users) { e_.Point(users_, users); }
  void Deliver();

 private:
  const Engine& e_;
  dnnl::memory users_, chosen_;
  Reorders reorders_;
};

}  // namespace sluice::cpu
