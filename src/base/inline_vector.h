// A vector with room for `kInside` elements inside the object: a short one takes no memory from the heap.
//
// The elements' move constructor must not throw. Thread safety and the validity of pointers are as
// std::vector's, except that moving a short vector moves its elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace sluice {

template <typename T, size_t kInside>
class InlineVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() = default;
  explicit InlineVector(size_t size) : InlineVector() {
    reserve(size);
    while (size_ < size) emplace_back();
  }
  InlineVector(std::initializer_list<T> elements) : InlineVector() { Append(elements); }
  InlineVector(const InlineVector& other) requires std::is_copy_constructible_v<T> : InlineVector() {
    Append(other);
  }
  InlineVector& operator=(const InlineVector& other) requires std::is_copy_constructible_v<T> {
    return *this = InlineVector(other);
  }
  InlineVector(InlineVector&& other) noexcept { Take(other); }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      Free();
      Take(other);
    }
    return *this;
  }
  ~InlineVector() { Free(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  void reserve(size_t capacity) {
    if (capacity > capacity_) Grow(capacity);
  }
  // The arguments must not refer to elements of this vector: growing frees them before they are used.
  template <typename... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) Grow(2 * capacity_);
    T* element = std::construct_at(data_ + size_, std::forward<Args>(args)...);
    ++size_;
    return *element;
  }
  void push_back(T element) { emplace_back(std::move(element)); }
  void clear() noexcept {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  // Erases the elements for which `predicate` is true. The others keep their order.
  template <typename Predicate>
  void EraseIf(Predicate&& predicate) {
    T* end_of_kept = std::remove_if(begin(), end(), std::forward<Predicate>(predicate));
    std::destroy(end_of_kept, end());
    size_ = static_cast<size_t>(end_of_kept - data_);
  }

 private:
  static_assert(kInside > 0 && std::is_nothrow_move_constructible_v<T>);
  T* Room() { return reinterpret_cast<T*>(room_); }
  template <typename Elements>
  void Append(const Elements& elements) {
    reserve(size_ + elements.size());
    for (const T& element : elements) emplace_back(element);
  }
  void Grow(size_t capacity) {
    T* larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_move_n(data_, size_, larger);
    const size_t size = size_;
    Free();
    data_ = larger;
    size_ = size;
    capacity_ = capacity;
  }
  // Destroys the elements and frees memory from the heap; the vector is empty afterwards.
  void Free() noexcept {
    clear();
    if (data_ != Room()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = Room();
    capacity_ = kInside;
  }
  // Moves `other`'s elements into this vector, which must be empty.
  void Take(InlineVector& other) noexcept {
    if (other.data_ != other.Room()) {
      data_ = std::exchange(other.data_, other.Room());
      capacity_ = std::exchange(other.capacity_, kInside);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.data_, other.size_, data_);
    size_ = other.size_;
    other.clear();
  }

  T* data_ = Room();
  size_t size_ = 0;
  size_t capacity_ = kInside;
  alignas(T) std::byte room_[kInside * sizeof(T)];
};

}  // namespace sluice
