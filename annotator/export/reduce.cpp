// One spelling for all reductions.
#include "annotator/export/reduce.h"

namespace whence {

Val reduce(Ctx& c, std::string_view op_type, Val value, const Ints& axes, bool keep_dims) {
  Attributes attributes;
  std::vector<Val> inputs{value};
  if (!axes.empty()) {
    if (op_type == "ReduceSum" || c.opset() >= 18) {
      inputs.push_back(c.constant_ints(axes));
    } else {
      attributes.push_back({"axes", axes});
    }
  }
  if (!keep_dims) attributes.push_back({"keepdims", 0});
  return c.emit(op_type, std::move(inputs), std::move(attributes));
}

}  // namespace whence
