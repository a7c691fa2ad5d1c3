// FlatModel: a file with whence's functions inlined into a scratch file, for use cases that work on nodes.
#pragma once

#include <optional>
#include <string>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/scratch_folder.h"
#include "whence/functions.h"

namespace whence::app {

class FlatModel {
 public:
  // Writes the scratch file into the folder of `output`. Throws Error.
  FlatModel(const std::string& file, const std::string& output, Diagnostics& notes);

  onnx_file::ModelSource source() const { return {path_, file_}; }   // the file itself if it has no such functions
  const std::optional<FunctionChoice>& cut() const { return cut_; }  // the choice that makes the same functions again

 private:
  std::string file_, path_;
  std::optional<ScratchFolder> scratch_;
  std::optional<FunctionChoice> cut_;
};

}  // namespace whence::app
