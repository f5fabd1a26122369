// A reference to a callable, as the parameter of a function that calls it before it returns. The caller keeps
// the callable alive for that long. It is two pointers large, and nothing is copied.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)  //
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor, bugprone-forwarding-reference-overload)
      : held_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* held, Args&&... args) -> R {
          return static_cast<R>(
              std::invoke(*static_cast<std::remove_reference_t<F>*>(held), std::forward<Args>(args)...));
        }) {}

  R operator()(Args... args) const { return call_(held_, std::forward<Args>(args)...); }

 private:
  void* held_;
  R (*call_)(void* held, Args&&... args);
};

}  // namespace sluice
