// The files that a command line names, held against each other before any work is done: what is written is never what
// is read, nor the weights of a model that is read. CommandLine::parse() asks this for every subcommand.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "tools/whence/cli.h"

namespace whence {

struct NamedFile {
  std::string name;  // as the user calls it: "--report", "the model"
  std::string path;
};

// Throws Error(usage) when an output is an input, a data file of an input or another output: by its path, links
// followed, or as the same file on disk. `in_place`: the input that the first output may be.
void require_apart(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs,
                   const std::string& in_place);

// `--output` of a command that writes a model: declared, and as the writers take it.
void declare_model_output(CommandLine& line, const std::string& help, Target target);
ModelOutput model_output(const CommandLine& line);

}  // namespace whence
