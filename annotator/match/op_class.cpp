#include "annotator/match/op_class.h"

#include <mutex>
#include <string>
#include <unordered_map>

namespace whence::match {
namespace {

// Numbers operators. The operators of the table come first, in its order, so that facts are looked up by number.
class Classes {
 public:
  Classes() {
    for (const operators::OnnxOperator& row : operators::all_onnx_operators()) number_of(row.name);
  }

  std::uint16_t number_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return numbers_.try_emplace(std::string(name), static_cast<std::uint16_t>(numbers_.size())).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::uint16_t> numbers_;
};

}  // namespace

std::uint16_t op_class(std::string_view op_type) {
  static Classes classes;
  const std::string_view plain = operators::onnx_operator(op_type).plain;
  return classes.number_of(plain.empty() ? op_type : plain);
}

bool class_has(std::uint16_t op_class, operators::Fact fact) {
  const auto rows = operators::all_onnx_operators();
  return op_class < rows.size() && operators::has(rows[op_class], fact);
}

}  // namespace whence::match
