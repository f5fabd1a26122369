// A move-only callable, like std::move_only_function (C++23), with room for `kBytes` of captures inside the
// object: if they fit, making and moving one takes no memory from the heap. Larger callables lie in the heap.
//
//   using Task = InlineFunction<void(), 64>;
//
// Not thread-safe, like any variable.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace sluice {

template <typename Signature, size_t kBytes>
class InlineFunction;

template <typename R, typename... Args, size_t kBytes>
class InlineFunction<R(Args...), kBytes> {
 public:
  InlineFunction() = default;
  InlineFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): like std::function's
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, InlineFunction> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)  //
      InlineFunction(F&& f) {  // NOLINT(google-explicit-constructor, bugprone-forwarding-reference-overload)
    using Held = std::decay_t<F>;
    if constexpr (kFits<Held>) {
      new (room_) Held(std::forward<F>(f));
      does_ = &kInside<Held>;
    } else {
      new (room_) Held*(new Held(std::forward<F>(f)));
      does_ = &kOutside<Held>;
    }
  }
  InlineFunction(InlineFunction&& other) noexcept { Take(other); }
  InlineFunction& operator=(InlineFunction&& other) noexcept {
    if (this != &other) {
      Reset();
      Take(other);
    }
    return *this;
  }
  InlineFunction& operator=(std::nullptr_t) noexcept {
    Reset();
    return *this;
  }
  ~InlineFunction() { Reset(); }

  explicit operator bool() const { return does_ != nullptr; }
  R operator()(Args... args) {
    if (does_ == nullptr) throw std::bad_function_call();
    return does_->call(room_, std::forward<Args>(args)...);
  }

  // Whether a callable of this type is stored without memory from the heap.
  template <typename F>
  static constexpr bool kFits =
      sizeof(F) <= kBytes &&
      alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

 private:
  // The operations on a stored callable of one type.
  struct Operations {
    R (*call)(void* room, Args&&... args);
    void (*move)(void* from, void* to) noexcept;  // and destroys the one in `from`
    void (*end)(void* room) noexcept;
  };
  template <typename F>
  static constexpr Operations kInside = {
      [](void* room, Args&&... args) -> R {
        return static_cast<R>(std::invoke(*static_cast<F*>(room), std::forward<Args>(args)...));
      },
      [](void* from, void* to) noexcept {
        new (to) F(std::move(*static_cast<F*>(from)));
        static_cast<F*>(from)->~F();
      },
      [](void* room) noexcept { static_cast<F*>(room)->~F(); }};
  template <typename F>
  static constexpr Operations kOutside = {
      [](void* room, Args&&... args) -> R {
        return static_cast<R>(std::invoke(**static_cast<F**>(room), std::forward<Args>(args)...));
      },
      [](void* from, void* to) noexcept { new (to) F*(*static_cast<F**>(from)); },
      [](void* room) noexcept { delete *static_cast<F**>(room); }};

  void Take(InlineFunction& other) noexcept {
    if (other.does_ == nullptr) return;
    other.does_->move(other.room_, room_);
    does_ = std::exchange(other.does_, nullptr);
  }
  void Reset() noexcept {
    if (does_ != nullptr) std::exchange(does_, nullptr)->end(room_);
  }

  static_assert(kBytes >= sizeof(void*));
  const Operations* does_ = nullptr;
  alignas(std::max_align_t) std::byte room_[kBytes];
};

}  // namespace sluice
