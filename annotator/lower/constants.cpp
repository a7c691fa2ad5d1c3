// mask = tril(ones(8, 8)); y = f(x, mask)   ->   y = f(x, <constant>)
// Every value that PyTorch could compute beforehand stands for its content from here on.
#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"

namespace whence {

void use_constants(Lowering& lowering) {
  for (Value& value : lowering.program.values) {
    if (value.known == none_id || value.source == ValueSource::parameter) continue;
    value.source = ValueSource::constant;
    value.index = value.known;
  }
}

}  // namespace whence
