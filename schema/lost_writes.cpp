#include "schema/lost_writes.h"

#include <utility>

namespace whence {
namespace {

std::string message_of(WrittenTo kind, const std::string& name) {
  const std::string not_kept = "; each run of the ONNX file starts from the archive's value";
  switch (kind) {
    case WrittenTo::state:
      return "the model writes to '" + name + "'" + not_kept;
    case WrittenTo::constant: {
      const bool named = name.find_first_not_of("0123456789") != std::string::npos;
      return "the model writes to " + (named ? "'" + name + "', " : "") +
             "a tensor that it holds and that is not a parameter or buffer" + not_kept;
    }
    case WrittenTo::attribute:
      return "the model sets its attribute '" + name + "', which lasts for one run only";
    case WrittenTo::element:
      return "the model changes the list or dict in its attribute '" + name + "', which lasts for one run only";
    case WrittenTo::input:
      return "the model writes to its input '" + name + "'; a run of the ONNX file leaves inputs as they are";
  }
  return "";
}

}  // namespace

Diagnostic lost_write(WrittenTo kind, const std::string& name, Place where) {
  const bool input = kind == WrittenTo::input;
  return warning(Code::state_not_kept, message_of(kind, name),
                 input ? "return the new value as an output, if the caller needs it"
                       : "return the new value as an output and take it as an input, if later runs need it",
                 std::move(where));
}

}  // namespace whence
