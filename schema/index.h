// Index: a position in a list. Each kind of list has its own index type, so that the index of a value cannot be used
// for a node. An Index is no larger than its integer. IndexedVector is a list with this index type.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <ranges>
#include <utility>
#include <vector>

namespace whence {

// The invalid index, for any list.
struct NoIndex {
  constexpr operator std::int32_t() const { return -1; }
};
inline constexpr NoIndex none_id;

template <class Kind>
class Index {
 public:
  constexpr Index() = default;  // the invalid index
  constexpr Index(NoIndex) {}
  constexpr explicit Index(std::integral auto number) : number_(static_cast<std::int32_t>(number)) {}

  constexpr bool exists() const { return number_ >= 0; }
  constexpr std::int32_t number() const { return number_; }
  friend constexpr auto operator<=>(Index, Index) = default;  // the invalid index is less than any other
  friend std::ostream& operator<<(std::ostream& out, Index index) { return out << index.number(); }

 private:
  std::int32_t number_ = -1;
};

template <class Key, class T>
class IndexedVector {
 public:
  using Items = std::vector<T>;

  IndexedVector() = default;
  explicit IndexedVector(std::size_t size, const T& item = T()) : items_(size, item) {}

  typename Items::reference operator[](Key key) { return items_[static_cast<std::size_t>(key.number())]; }
  typename Items::const_reference operator[](Key key) const { return items_[static_cast<std::size_t>(key.number())]; }

  Key add(T item) {
    items_.push_back(std::move(item));
    return Key(items_.size() - 1);
  }
  bool contains(Key key) const { return key.exists() && static_cast<std::size_t>(key.number()) < size(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void resize(std::size_t size) { items_.resize(size); }
  void assign(std::size_t size, const T& item) { items_.assign(size, item); }

  Items& items() { return items_; }
  const Items& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  auto keys() const {
    return std::views::iota(std::size_t{0}, size()) | std::views::transform([](std::size_t at) { return Key(at); });
  }

 private:
  Items items_;
};

}  // namespace whence

template <class Kind>
struct std::hash<whence::Index<Kind>> {
  std::size_t operator()(whence::Index<Kind> index) const noexcept { return static_cast<std::size_t>(index.number()); }
};
