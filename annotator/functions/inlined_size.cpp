#include "annotator/functions/inlined_size.h"

#include <algorithm>
#include <map>

#include "annotator/onnx_file/called_functions.h"
#include "annotator/onnx_file/walk.h"

namespace whence::functions {

using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;

namespace {

constexpr int max_nested_calls = 1000;  // nesting depth

class Counter {
 public:
  Counter(const ModelParts& parts, const std::function<bool(const OnnxFunction&)>& is_selected) {
    for (const OnnxFunction& function : parts.functions) {
      if (is_selected(function)) {
        functions_[key_of(function)] = {&function, Size::unknown, 0};
      }
    }
  }

  std::uint64_t count(const std::vector<OnnxNode>& nodes) {
    std::uint64_t sum = 0;
    onnx_file::walk_nodes(
        nodes, [&](const OnnxNode& each) { sum = std::min(sum + size_of_call(each), max_inlined_nodes + 1); });
    return sum;
  }

  bool is_endless() const { return is_endless_; }

 private:
  enum class Size : std::uint8_t { unknown, counting, known };
  struct Function {
    const OnnxFunction* function;
    Size size;
    std::uint64_t nodes;
  };

  std::uint64_t size_of_call(const OnnxNode& node) {
    const auto found = functions_.find(key_of_called(node));
    if (found == functions_.end()) return 1;
    Function& function = found->second;
    is_endless_ |= function.size == Size::counting || depth_ > max_nested_calls;
    if (function.size == Size::unknown && !is_endless_) {
      function.size = Size::counting;
      ++depth_;
      function.nodes = count(function.function->nodes);
      --depth_;
      function.size = Size::known;
    }
    return std::max<std::uint64_t>(function.nodes, 1);  // a call of an empty function takes time, too
  }

  std::map<onnx_file::FunctionKey, Function> functions_;
  int depth_ = 0;
  bool is_endless_ = false;
};

}  // namespace

std::uint64_t stored_nodes(const ModelParts& parts) {
  std::uint64_t count = 0;
  const auto add = [&](const OnnxNode&) { ++count; };
  onnx_file::walk_nodes(parts.graph.nodes, add);
  for (const OnnxFunction& function : parts.functions) onnx_file::walk_nodes(function.nodes, add);
  return count;
}

std::optional<std::uint64_t> inlined_size(const ModelParts& parts,
                                          const std::function<bool(const OnnxFunction&)>& is_selected) {
  Counter counter(parts, is_selected);
  const std::uint64_t nodes = counter.count(parts.graph.nodes);
  return counter.is_endless() ? std::nullopt : std::optional(nodes);
}

}  // namespace whence::functions
