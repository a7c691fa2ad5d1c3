// RareList: a list for members that are usually empty. An empty list takes only a pointer.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace whence::onnx_file {

template <class T>
class RareList {
 public:
  RareList() = default;
  RareList(const RareList& other) : items_(other.items_ ? std::make_unique<std::vector<T>>(*other.items_) : nullptr) {}
  RareList(RareList&& other) noexcept = default;
  RareList& operator=(RareList other) noexcept {
    items_.swap(other.items_);
    return *this;
  }
  ~RareList() = default;

  void push_back(T item) {
    if (!items_) items_ = std::make_unique<std::vector<T>>();
    items_->push_back(std::move(item));
  }

  bool empty() const { return !items_; }
  std::size_t size() const { return items_ ? items_->size() : 0; }
  T* begin() { return items_ ? items_->data() : nullptr; }
  T* end() { return begin() + size(); }
  const T* begin() const { return items_ ? items_->data() : nullptr; }
  const T* end() const { return begin() + size(); }
  const T& front() const { return items_->front(); }

 private:
  std::unique_ptr<std::vector<T>> items_;
};

}  // namespace whence::onnx_file
