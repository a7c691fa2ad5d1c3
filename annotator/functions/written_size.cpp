#include "annotator/functions/written_size.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "annotator/onnx_file/walk.h"

namespace whence::functions {

using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;

namespace {

constexpr int deepest = 1000;  // calls in calls

class Counter {
 public:
  Counter(const ModelParts& parts, const std::function<bool(const OnnxFunction&)>& chosen) {
    for (const OnnxFunction& function : parts.functions) {
      if (chosen(function)) {
        functions_[{function.domain, function.name, function.overload}] = {&function, Size::unknown, 0};
      }
    }
  }

  std::uint64_t count(const std::vector<OnnxNode>& nodes) {
    std::uint64_t sum = 0;
    onnx_file::walk_nodes(nodes,
                          [&](const OnnxNode& each) { sum = std::min(sum + of_call(each), most_written_nodes + 1); });
    return sum;
  }

  bool endless() const { return endless_; }

 private:
  enum class Size : std::uint8_t { unknown, open, known };
  struct Function {
    const OnnxFunction* function;
    Size size;
    std::uint64_t nodes;
  };

  std::uint64_t of_call(const OnnxNode& node) {
    const auto found = functions_.find({node.domain, node.op_type, node.overload});
    if (found == functions_.end()) return 1;
    Function& function = found->second;
    endless_ |= function.size == Size::open || depth_ > deepest;
    if (function.size == Size::unknown && !endless_) {
      function.size = Size::open;
      ++depth_;
      function.nodes = count(function.function->nodes);
      --depth_;
      function.size = Size::known;
    }
    return std::max<std::uint64_t>(function.nodes, 1);  // a function without nodes takes time too
  }

  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, Function> functions_;
  int depth_ = 0;
  bool endless_ = false;
};

}  // namespace

std::uint64_t stored_nodes(const ModelParts& parts) {
  std::uint64_t count = 0;
  const auto add = [&](const OnnxNode&) { ++count; };
  onnx_file::walk_nodes(parts.graph.nodes, add);
  for (const OnnxFunction& function : parts.functions) onnx_file::walk_nodes(function.nodes, add);
  return count;
}

std::optional<std::uint64_t> written_size(const ModelParts& parts,
                                          const std::function<bool(const OnnxFunction&)>& chosen) {
  Counter counter(parts, chosen);
  const std::uint64_t nodes = counter.count(parts.graph.nodes);
  return counter.endless() ? std::nullopt : std::optional(nodes);
}

}  // namespace whence::functions
