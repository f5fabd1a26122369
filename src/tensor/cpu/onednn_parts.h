// The parts that oneDNN's primitives are put together from. Only cpu/onednn*.cc use them.
#pragma once

#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "tensor/kernels/dense.h"

namespace sluice::cpu {

constexpr auto kFloat = dnnl::memory::data_type::f32;

// The type that the factors of products are rounded to.
inline dnnl::memory::data_type FactorType(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kBFloat16 ? dnnl::memory::data_type::bf16 : kFloat;
}

struct Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  // Returns a memory object without memory; Point sets it to an array of the caller before each run.
  dnnl::memory Unbound(const dnnl::memory::desc& desc) const { return {desc, engine, DNNL_MEMORY_NONE}; }
  void Point(dnnl::memory& at, const float* data) const {
    at.set_data_handle(const_cast<float*>(data), stream);
  }
};

// The arguments of a primitive, as the list that dnnl_primitive_execute takes. It is made once:
// oneDNN's own C++ `execute` would copy it for every run.
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

// A copy from one memory to another in another layout or type. The two may have different axes, four each:
// element i of one, in the order of its axes, is then element i of the other in the order of its own.
class Reorders {
 public:
  Reorders() = default;  // copies nothing
  Reorders(const Engine& e, const dnnl::memory& from, const dnnl::memory& to);
  void Execute(const dnnl::stream& stream) const;

 private:
  void Add(const dnnl::memory& from, const dnnl::memory& to);

  std::vector<std::pair<dnnl::reorder, Arguments>> steps_;
};

// An array of the caller, float32 in the caller's layout, and the memory that a primitive
// reads in its place: the same memory, or a copy in the layout and type that the
// primitive chose, possibly with other axes (Reorders).
class Input {
 public:
  Input(const Engine& e, const dnnl::memory::desc& users, const dnnl::memory::desc& chosen);
  const dnnl::memory& chosen() const { return chosen_; }
  // Sets the caller's array, and makes the copy if there is one; to be called before the primitive runs.
  void Bring(const float* users);

 private:
  const Engine& e_;
  dnnl::memory users_, chosen_;    // the same memory if neither of the next two is set
  int64_t elements_to_round_ = 0;  // above 0: chosen_ differs in the type alone
  Reorders reorders_;              // not empty: chosen_ differs in the layout, perhaps in the type too
};

// The counterpart of Input for an array that a primitive writes.
class Output {
 public:
  Output(const Engine& e, const dnnl::memory::desc& users, const dnnl::memory::desc& chosen);
  const dnnl::memory& chosen() const { return chosen_; }
  // Point sets the caller's array before the primitive runs; Deliver copies the result there afterwards.
  void Point(float* users) { e_.Point(users_, users); }
  void Deliver();

 private:
  const Engine& e_;
  dnnl::memory users_, chosen_;
  Reorders reorders_;
};

}  // namespace sluice::cpu
