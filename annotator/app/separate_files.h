// Compares the files of one use before any work is done: an output never replaces an input, nor the weights of a model
// that is an input or stands beside it.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"

namespace whence::app {

struct NamedFile {
  std::string name;  // the user's name for it: "--report", "the model"
  std::string path;  // empty: not given
};

// Throws Error(usage) when an output is an input, a data file of an input or of an ONNX file in its folder, or another
// output: by its path, links followed, or as the same file on disk. `in_place`: the input that the first output may be.
void require_separate(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs,
                      const std::string& in_place);

// Throws Error(usage) when two of the outputs are one file.
void require_apart(const std::vector<NamedFile>& outputs);

enum class InPlace { refused, allowed };  // says if the output may be the first input

// The output of a use that writes a model, held against its inputs, none of which is ever replaced. Throws Error(usage)
// for a sidecar's name (schema/sidecar/file_names.h), too.
onnx_file::ModelOutput model_output(const std::vector<NamedFile>& inputs, const NamedFile& output, InPlace in_place,
                                    bool overwrite);

}  // namespace whence::app
