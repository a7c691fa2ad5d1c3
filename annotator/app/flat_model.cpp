#include "annotator/app/flat_model.h"

#include "annotator/functions/flat_summary.h"
#include "annotator/functions/outline_file.h"
#include "schema/files/files.h"

namespace whence::app {

FlatModel::FlatModel(const std::string& file, const std::string& output, Diagnostics& notes)
    : file_(file), path_(file) {
  if (!functions::has_cut_functions(unwrap(onnx_file::read_summary_without_graph(file), notes))) return;
  cut_ = functions::cut_modules(unwrap(onnx_file::read_onnx_summary(file), notes));
  if (cut_->automatic()) cut_.reset();  // a tool inlined the calls but left the functions
  scratch_.emplace(output);
  path_ = scratch_->file(base_name(file));
  onnx_file::ModelOutput draft(path_);
  draft.draft = true;
  unwrap(functions::inline_file(file, draft, /*all=*/false), notes);
}

}  // namespace whence::app
