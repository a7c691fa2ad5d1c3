// Restores a member that a nested evaluation changes, even if it throws.
#pragma once

#include <utility>

namespace whence::recorder::script {

template <class T>
class Restore {
 public:
  explicit Restore(T& place) : place_(place), before_(place) {}
  ~Restore() { place_ = std::move(before_); }
  Restore(const Restore&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace whence::recorder::script
