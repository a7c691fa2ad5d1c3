// The folder in which a tool works: a copy of the model with its data files, which the tool may change, and room for
// what it writes.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "schema/files/scratch_folder.h"

namespace whence::app {

class ToolFolder {
 public:
  // `data`: the model's. `beside`: the output, in whose folder it is made. Throws Error: what require_data_file()
  // throws, cannot_write.
  ToolFolder(const std::string& model, const onnx_file::DataFiles& data, const std::string& beside);

  // The arguments with the paths of this folder in the place of {in} and {out}.
  std::vector<std::string> filled_in(const std::vector<std::string>& arguments) const;

  // The file that the tool made: at {out}; the only ONNX file where it made a folder of that name; or {in}, or the only
  // new ONNX file beside it, where the arguments have no {out}. Throws Error(tool_failed) when there is none.
  std::string result(const std::vector<std::string>& arguments) const;

  void clear() const;                                  // removes what is in it, folders too
  Diagnostics as_seen(Diagnostics diagnostics) const;  // without the folder's path

 private:
  void add_data(const std::string& model, const onnx_file::DataFiles& data);

  ScratchFolder scratch_;
  std::string model_, folder_, in_, out_;  // absolute
};

// True if an argument has the placeholder, "{in}" or "{out}".
bool has_placeholder(const std::vector<std::string>& arguments, const std::string& placeholder);

// The command line as a shell takes it.
std::string shell_text(const std::vector<std::string>& arguments);

}  // namespace whence::app
