#include "annotator/write/user_functions.h"

#include <onnx/onnx_pb.h>

#include "schema/files.h"
#include "schema/result.h"

namespace whence {
namespace {

constexpr std::string_view prefix = "whence.";

void refuse_recursion(const UserFunctions& all, const onnx::FunctionProto& function, const onnx::FunctionProto& caller,
                      int depth, const Place& place) {
  for (const onnx::NodeProto& node : caller.node()) {
    const onnx::FunctionProto* called = all.find(node.domain(), node.op_type());
    if (called == nullptr) continue;
    if (called == &function || depth > 64) {
      throw Error(Code::corrupt_file, "the function " + function.domain() + "::" + function.name() + " calls itself",
                  "ONNX has no recursion: write it as a Loop", place);
    }
    refuse_recursion(all, function, *called, depth + 1, place);
  }
}

}  // namespace

UserFunctions::UserFunctions() : model_(std::make_unique<onnx::ModelProto>()) {}
UserFunctions::~UserFunctions() = default;

std::shared_ptr<const UserFunctions> UserFunctions::read(const std::string& path, int opset) {
  const Place place{.file = path, .stage = "read"};
  const auto file = MappedFile::open(path);
  std::shared_ptr<UserFunctions> result(new UserFunctions());
  if (!result->model_->ParseFromArray(file->data(), static_cast<int>(file->size()))) {
    throw Error(Code::wrong_kind, path + " is not an ONNX model", "give a model file that holds functions", place);
  }
  if (result->operators().empty()) {
    throw Error(Code::wrong_kind, path + " holds no function of a domain 'whence.NAMESPACE'",
                "name the function after the operator: `op` of the domain `whence.mylib` converts mylib::op", place);
  }
  for (const onnx::FunctionProto& function : result->model_->functions()) {
    refuse_recursion(*result, function, function, 0, place);
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      if (!import.domain().empty() || import.version() <= opset) continue;
      throw Error(Code::converter_refused,
                  "the function " + function.domain() + "::" + function.name() + " needs opset " +
                      std::to_string(import.version()) + ", the export has " + std::to_string(opset),
                  "export with --opset " + std::to_string(import.version()), place);
    }
  }
  return result;
}

std::set<std::string> UserFunctions::operators() const {
  std::set<std::string> operators;
  for (const onnx::FunctionProto& function : model_->functions()) {
    if (function.domain().starts_with(prefix)) {
      operators.insert(function.domain().substr(prefix.size()) + "::" + function.name());
    }
  }
  return operators;
}

const onnx::FunctionProto* UserFunctions::find(const std::string& domain, const std::string& name) const {
  for (const onnx::FunctionProto& function : model_->functions()) {
    if (function.domain() == domain && function.name() == name) return &function;
  }
  return nullptr;
}

}  // namespace whence
