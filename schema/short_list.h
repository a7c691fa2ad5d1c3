// ShortList: a list whose first N items need no memory of their own. For the many lists of a graph that hold one to
// three ids: a million std::vectors cost 24 bytes and an allocation each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace whence {

template <class T, std::uint32_t N>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(T*));

 public:
  using value_type = T;

  ShortList() = default;
  ShortList(std::initializer_list<T> items) { append(items); }
  ShortList(const ShortList& other) { append(other); }
  ShortList(ShortList&& other) noexcept { swap(other); }
  ShortList& operator=(ShortList other) noexcept {
    swap(other);
    return *this;
  }
  ~ShortList() {
    if (size_ > N) std::allocator<T>().deallocate(data(), capacity());
  }

  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t at) const { return data()[at]; }
  const T& front() const { return data()[0]; }

  void push_back(T item) {
    if (size_ >= N && (size_ == N || size_ == capacity())) move_to(std::bit_ceil(size_ + 1));
    ++size_;
    data()[size_ - 1] = item;
  }
  void append(const std::ranges::input_range auto& items) {
    for (const T& item : items) push_back(item);
  }
  void clear() { *this = ShortList(); }

 private:
  // Items on the heap have a power of two of places, so that no member needs to hold their number.
  std::uint32_t capacity() const { return std::bit_ceil(size_); }
  T* data() { return size_ > N ? heap() : reinterpret_cast<T*>(storage_); }
  const T* data() const { return size_ > N ? heap() : reinterpret_cast<const T*>(storage_); }
  T* heap() const {
    T* items = nullptr;
    std::memcpy(&items, storage_, sizeof(items));
    return items;
  }
  // Moves the items to the heap, with room for `places`: the caller adds an item at once.
  void move_to(std::uint32_t places) {
    T* items = std::allocator<T>().allocate(places);
    std::ranges::copy(*this, items);
    if (size_ > N) std::allocator<T>().deallocate(data(), capacity());
    std::memcpy(storage_, &items, sizeof(items));
  }
  void swap(ShortList& other) noexcept {
    std::swap(storage_, other.storage_);
    std::swap(size_, other.size_);
  }

  alignas(T*) std::byte storage_[std::max(N * sizeof(T), sizeof(T*))] = {};
  std::uint32_t size_ = 0;
};

}  // namespace whence
