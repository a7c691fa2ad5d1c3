#include "annotator/functions/written_size.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "annotator/functions/call_text.h"

namespace whence::functions {
namespace {

constexpr int deepest = 1000;  // calls in calls

class Counter {
 public:
  Counter(const onnx::ModelProto& model, const std::function<bool(const onnx::FunctionProto&)>& chosen) {
    for (const onnx::FunctionProto& function : model.functions()) {
      if (chosen(function))
        functions_[{function.domain(), function.name(), function.overload()}] = {&function, Size::unknown, 0};
    }
  }

  template <class Nodes>
  std::uint64_t count(const Nodes& nodes) {
    std::uint64_t sum = 0;
    for (const onnx::NodeProto& node : nodes) {
      for_each_node(node,
                    [&](const onnx::NodeProto& each) { sum = std::min(sum + of_call(each), most_written_nodes + 1); });
    }
    return sum;
  }

  bool endless() const { return endless_; }

 private:
  enum class Size : std::uint8_t { unknown, open, known };
  struct Function {
    const onnx::FunctionProto* proto;
    Size size;
    std::uint64_t nodes;
  };

  std::uint64_t of_call(const onnx::NodeProto& node) {
    const auto found = functions_.find({node.domain(), node.op_type(), node.overload()});
    if (found == functions_.end()) return 1;
    Function& function = found->second;
    endless_ |= function.size == Size::open || depth_ > deepest;
    if (function.size == Size::unknown && !endless_) {
      function.size = Size::open;
      ++depth_;
      function.nodes = count(function.proto->node());
      --depth_;
      function.size = Size::known;
    }
    return function.nodes;
  }

  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, Function> functions_;
  int depth_ = 0;
  bool endless_ = false;
};

}  // namespace

std::optional<std::uint64_t> written_size(const onnx::ModelProto& model,
                                          const std::function<bool(const onnx::FunctionProto&)>& chosen) {
  Counter counter(model, chosen);
  const std::uint64_t nodes = counter.count(model.graph().node());
  return counter.endless() ? std::nullopt : std::optional(nodes);
}

}  // namespace whence::functions
