#include "annotator/app/read_options.h"

#include "annotator/app/input_spec.h"

namespace whence::app {
namespace {

// Returns "input_ids:0=batch,1=seq" for {0: "batch", 1: "seq"} of input_ids.
std::string dynamic_spec(const std::string& input, const std::map<int, std::string>& axes) {
  std::string text = input + ":";
  for (const auto& [axis, size] : axes) {
    if (text.back() != ':') text += ",";
    text += std::to_string(axis);
    if (!size.empty()) text += "=" + size;
  }
  return text;
}

}  // namespace

ReadOptions read_options(const std::string& archive, const Options& options) {
  ReadOptions read;
  read.path = archive;
  read.inputs_file = options.inputs_file;
  read.default_dtype = parse_default_dtype(options.default_dtype);
  for (const std::string& spec : options.inputs) read.inputs.push_back(parse_input_spec(spec));
  if (!read.inputs_file.empty() && !read.inputs.empty()) {
    throw Error(Code::usage, "--inputs and --input were both passed", "pass the file, or a SPEC for each input",
                Place{.stage = "command line"});
  }
  for (const auto& [input, axes] : options.dynamic_axes) {
    for (DynamicAxis& axis : parse_dynamic(dynamic_spec(input, axes))) read.dynamic.push_back(std::move(axis));
  }
  for (const std::string& spec : options.dynamic) {
    for (DynamicAxis& axis : parse_dynamic(spec)) read.dynamic.push_back(std::move(axis));
  }
  read.input_names = options.input_names;
  return read;
}

}  // namespace whence::app
