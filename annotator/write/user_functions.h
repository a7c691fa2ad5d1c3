// UserFunctions: user-defined converters as ONNX functions. An operator `mylib::op` with a function `op` in the domain
// `whence.mylib` becomes a node that calls it; the function is written into the file, so that the file runs anywhere.
// Inputs are the operator's tensors in the order of its schema, attributes have the names of its arguments.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace onnx {
class FunctionProto;
class ModelProto;
}  // namespace onnx

namespace whence::write {

class UserFunctions {
 public:
  // Reads functions from a model file. Throws Error: missing_file, wrong_kind if no function is in a `whence.` domain,
  // converter_refused for a function that needs a newer opset than `opset`, corrupt_file for a function that calls
  // itself.
  static std::shared_ptr<const UserFunctions> read(const std::string& path, int opset);
  ~UserFunctions();
  UserFunctions(const UserFunctions&) = delete;
  UserFunctions& operator=(const UserFunctions&) = delete;

  std::set<std::string> operators() const;                                                    // {"mylib::op"}
  const onnx::FunctionProto* find(const std::string& domain, const std::string& name) const;  // nullptr if unknown
  // Returns the functions of the file that nodes of `function` call, also in bodies; each once.
  std::vector<const onnx::FunctionProto*> called_by(const onnx::FunctionProto& function) const;
  const onnx::ModelProto& model() const { return *model_; }

 private:
  UserFunctions();
  std::unique_ptr<onnx::ModelProto> model_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*>
      by_name_;  // by domain and name; the first one counts
};

}  // namespace whence::write
