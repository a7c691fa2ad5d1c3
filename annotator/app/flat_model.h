// FlatModel: a file whose modules are functions, for uses that work on nodes: its calls are written out beside the
// output first.
#pragma once

#include <optional>
#include <string>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/scratch_folder.h"
#include "whence/functions.h"

namespace whence::app {

class FlatModel {
 public:
  // `beside`: the output, in whose folder the scratch file stands. Throws Error.
  FlatModel(const std::string& file, const std::string& beside, Diagnostics& notes);

  onnx_file::ModelSource source() const { return {path_, file_}; }   // the file itself without functions of whence's
  const std::optional<FunctionChoice>& cut() const { return cut_; }  // the choice that makes the functions again

 private:
  std::string file_, path_;
  std::optional<ScratchFolder> scratch_;
  std::optional<FunctionChoice> cut_;
};

}  // namespace whence::app
