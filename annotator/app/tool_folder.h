// ToolFolder: a scratch folder for a tool, with a copy of the model and its data files, which the tool may change.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "schema/files/scratch_folder.h"

namespace whence::app {

class ToolFolder {
 public:
  // Creates the folder next to `output`. `data` are the model's data files. Throws Error: as require_data_file() does,
  // cannot_write.
  ToolFolder(const std::string& model, const onnx_file::DataFiles& data, const std::string& output);

  // Returns the arguments with {in} and {out} replaced with paths in this folder.
  std::vector<std::string> filled_in(const std::vector<std::string>& arguments) const;

  // Returns the file that the tool made: {out}, or the only ONNX file in it if it is a folder. If the arguments have no
  // {out}: {in}, or the only new ONNX file next to it. Throws Error(tool_failed) if there is none.
  std::string result(const std::vector<std::string>& arguments) const;

  void clear() const;                                          // removes all files and folders in it
  Diagnostics with_user_paths(Diagnostics diagnostics) const;  // removes the folder's path from the texts

 private:
  void add_data(const std::string& model, const onnx_file::DataFiles& data);

  ScratchFolder scratch_;
  std::string model_, folder_, in_, out_;  // absolute
};

// Returns true if an argument contains the placeholder, "{in}" or "{out}".
bool has_placeholder(const std::vector<std::string>& arguments, const std::string& placeholder);

// Returns the command line with shell quotes.
std::string shell_text(const std::vector<std::string>& arguments);

}  // namespace whence::app
