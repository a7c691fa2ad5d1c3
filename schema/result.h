// Result<T>: the return type of functions that other rooms call. An Error ends the work on the current node or file,
// and the function in charge of it turns the Error into a Result.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include "whence/diagnostics.h"

namespace whence {

// A value with warnings and notes, or errors.
template <class T>
class Result {
 public:
  Result(T value, Diagnostics notes = {}) : value_(std::move(value)), diagnostics_(std::move(notes)) {}
  Result(Diagnostics errors) : diagnostics_(std::move(errors)) {}
  Result(const Error& error) : diagnostics_(error.diagnostics()) {}

  explicit operator bool() const { return value_.index() == 1; }
  T& operator*() { return std::get<1>(value_); }
  const T& operator*() const { return std::get<1>(value_); }
  T* operator->() { return &std::get<1>(value_); }
  const T* operator->() const { return &std::get<1>(value_); }
  const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  std::variant<std::monostate, T> value_;
  Diagnostics diagnostics_;
};

// Returns the value without its notes, or throws Error with all diagnostics.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw Error(result.diagnostics());
  return std::move(*result);
}

// Returns the value and appends its notes to `notes`, or throws Error with all diagnostics.
template <class T>
T unwrap(Result<T> result, Diagnostics& notes) {
  if (!result) throw Error(result.diagnostics());
  notes.insert(notes.end(), result.diagnostics().begin(), result.diagnostics().end());
  return std::move(*result);
}

inline Error out_of_memory() {
  return Error(Code::over_limit, "out of memory", "close other programs, or use a machine with more memory");
}

// Runs `body` and turns all exceptions into diagnostics. Public functions use it as their outermost handler.
template <class Body>
auto guarded(Body&& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& other) {
    return Error(Code::internal, std::string("unexpected failure: ") + other.what(),
                 "please report this with the command line and the file");
  }
}

}  // namespace whence
