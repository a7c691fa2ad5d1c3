// UserFunctions: converters that the user brings, as ONNX functions. An operator `mylib::op` for which there is a
// function `op` of the domain `whence.mylib` becomes a node that calls it; the function goes into the file, so that the
// file runs anywhere. Inputs are the operator's tensors in the order of its schema, attributes have the names of its
// arguments.
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
  // From a model file that holds functions. Throws Error: missing_file, wrong_kind when it holds none of such a domain,
  // converter_refused for one that needs a newer opset than `opset`, corrupt_file for one that calls itself.
  static std::shared_ptr<const UserFunctions> read(const std::string& path, int opset);
  ~UserFunctions();
  UserFunctions(const UserFunctions&) = delete;
  UserFunctions& operator=(const UserFunctions&) = delete;

  std::set<std::string> operators() const;                                                    // {"mylib::op"}
  const onnx::FunctionProto* find(const std::string& domain, const std::string& name) const;  // nullptr when unknown
  // The functions of the file that nodes of `function` call, those of its bodies included; each once.
  std::vector<const onnx::FunctionProto*> called_by(const onnx::FunctionProto& function) const;
  const onnx::ModelProto& model() const { return *model_; }

 private:
  UserFunctions();
  std::unique_ptr<onnx::ModelProto> model_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> by_name_;  // domain and name; the first
};

}  // namespace whence::write
