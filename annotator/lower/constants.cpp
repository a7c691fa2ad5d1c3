// mask = tril(ones(8, 8)); y = f(x, mask)   ->   y = f(x, <constant>)
// Every value that PyTorch could compute beforehand stands for its content from here on. So does every tensor that
// never has an element: nothing needs to compute it, and runtimes disagree on what reducing or reshaping nothing gives.
#include <algorithm>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"

namespace whence::lower {
namespace {

bool always_empty(const Type& type) {
  if (type.kind != ValueKind::tensor || !type.dims || type.dtype == DType::undefined) return false;
  return std::ranges::all_of(*type.dims, &Dim::is_static) &&
         std::ranges::any_of(*type.dims, [](const Dim& dim) { return dim.size == 0; });
}

void note_empty_results(Program& program) {
  each_node(program.body, [&](const Node& node) {
    for (const ValueId output : node.outputs) {
      Value& value = program.values[output];
      if (!node.blocks.empty() || value.known != none_id || !always_empty(value.type)) continue;
      TensorData nothing{value.type.dtype, {}, {}};
      for (const Dim& dim : *value.type.dims) nothing.shape.push_back(dim.size);
      value.known = static_cast<ConstantId>(program.constants.size());
      program.constants.push_back({std::move(nothing), {}, {node.origin.op}});
    }
  });
}

}  // namespace

void use_constants(Lowering& lowering) {
  note_empty_results(lowering.program);
  for (Value& value : lowering.program.values) {
    if (value.known == none_id || value.source == ValueSource::parameter) continue;
    value.source = ValueSource::constant;
    value.index = value.known;
  }
}

}  // namespace whence::lower
