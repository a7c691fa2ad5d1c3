// A file whose modules are functions, for commands that work on nodes: its calls are written out beside the output
// first.
#pragma once

#include <optional>
#include <string>

#include "annotator/functions/flat_summary.h"
#include "annotator/functions/outline_file.h"
#include "schema/files/files.h"
#include "schema/files/scratch_folder.h"
#include "tools/whence/cli.h"

namespace whence {

class WrittenOut {
 public:
  // `beside`: the output, in whose folder the scratch file stands. Throws Error.
  WrittenOut(const std::string& file, const std::string& beside, Diagnostics& notes) : file_(file), path_(file) {
    const OnnxSummary model = unwrap(read_onnx_summary(file), notes);
    if (!has_cut_functions(model)) return;
    if (const FunctionChoice cut = cut_modules(model); !cut.automatic()) cut_ = cut;
    scratch_.emplace(beside);
    path_ = scratch_->file(base_name(file));
    ModelOutput draft(path_);
    draft.draft = true;
    unwrap(inline_file(file, draft, /*all=*/false), notes);
  }

  ModelSource source() const { return {path_, file_}; }  // the file itself when it has no functions of whence's
  const std::optional<FunctionChoice>& cut() const { return cut_; }  // would make the functions again

 private:
  std::string file_, path_;
  std::optional<ScratchFolder> scratch_;
  std::optional<FunctionChoice> cut_;
};

}  // namespace whence
