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

Val reduce_mean(Ctx& c, Val value, const Ints& axes, bool keep_dims) {
  bool nothing = false;
  for (const std::int64_t axis : axes) nothing |= c.static_dim(value, axis) == 0;
  for (int axis = 0; axes.empty() && axis < c.rank(value); ++axis) nothing |= c.static_dim(value, axis) == 0;
  if (!nothing) return reduce(c, "ReduceMean", value, axes, keep_dims);
  return c.emit("Div", {reduce(c, "ReduceSum", value, axes, keep_dims), c.constant_number(0, c.dtype(value))});
}

}  // namespace whence
