// Checks the files of a use case before any work: an output never replaces an input, the weights of an input, or the
// weights of a model in the same folder.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"

namespace whence::app {

struct NamedFile {
  std::string name;  // for messages: "--report", "the model"
  std::string path;  // empty: not given
};

// Throws Error(usage) if an output is an input, a data file of an input or of an ONNX file in its folder, or another
// output. Compares resolved paths and files on disk. `in_place` names the input that the first output may replace.
void require_separate(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs,
                      const std::string& in_place);

// Throws Error(usage) if two outputs are the same file.
void require_distinct(const std::vector<NamedFile>& outputs);

enum class InPlace { refused, allowed };  // whether the output may replace the first input

// Returns the output of a use case that writes a model, after require_separate(). Also throws Error(usage) if the
// output has the name of a sidecar (schema/sidecar/file_names.h).
onnx_file::ModelOutput model_output(const std::vector<NamedFile>& inputs, const NamedFile& output, InPlace in_place,
                                    bool overwrite);

}  // namespace whence::app
