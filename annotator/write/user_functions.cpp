#include "annotator/write/user_functions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "schema/files/files.h"
#include "schema/result.h"

namespace whence::write {
namespace {

constexpr std::string_view prefix = "whence.";

constexpr int deepest = 1000;  // nesting depth of calls

void collect_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                   std::vector<const onnx::NodeProto*>& all) {
  for (const onnx::NodeProto& node : nodes) {
    all.push_back(&node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      collect_nodes(attribute.g().node(), all);
      for (const onnx::GraphProto& graph : attribute.graphs()) collect_nodes(graph.node(), all);
    }
  }
}

// Follows every call once. `finished` maps visited functions to true once all their calls have been followed.
void refuse_recursion(const UserFunctions& all, const onnx::FunctionProto& function, int depth,
                      std::map<const onnx::FunctionProto*, bool>& finished, const Place& place) {
  const auto [entry, is_new] = finished.try_emplace(&function, false);
  if (entry->second) return;
  const std::string name = "the function " + function.domain() + "::" + function.name();
  if (!is_new)
    throw Error(Code::corrupt_file, name + " calls itself", "ONNX has no recursion: write it as a Loop", place);
  if (depth > deepest) {
    throw Error(Code::over_limit, name + " is nested in more than " + std::to_string(deepest) + " calls",
                "inline functions that are called once into their callers", place);
  }
  for (const onnx::FunctionProto* called : all.called_by(function)) {
    refuse_recursion(all, *called, depth + 1, finished, place);
  }
  entry->second = true;
}

// The opset that changed the meaning of an existing call of an operator without a change of its schema: another
// default, names of modes, shape of an input. python/whence/converters/node_recorder.py has the same table for its
// calls.
const std::map<std::string, int, std::less<>> reformed{
    {"BatchNormalization", 14},
    {"DFT", 20},
    {"GridSample", 20},
    {"GroupNormalization", 21},
    {"Hardmax", 13},
    {"LogSoftmax", 13},
    {"Resize", 11},
    {"RoiAlign", 16},
    {"Softmax", 13},
};

// Returns true if a node has the same meaning at opset `to` as at `from`: most new versions of operators accept more
// types, but some change the form.
bool keeps_meaning(const onnx::NodeProto& node, int from, int to) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const auto& nodes = attribute.g().node();
    if (!std::ranges::all_of(nodes, [&](const auto& inner) { return keeps_meaning(inner, from, to); })) return false;
  }
  const std::string& name = node.op_type();
  if (!node.domain().empty()) return true;
  const auto *before = onnx::OpSchemaRegistry::Schema(name, from, ""),
             *after = onnx::OpSchemaRegistry::Schema(name, to, "");
  if (before == after) return true;
  if (before == nullptr || after == nullptr) return false;
  const auto known = [&](const auto& attribute) { return after->attributes().contains(attribute.name()); };
  if (!std::ranges::all_of(node.attribute(), known)) return false;  // the attribute has become an input
  if (name == "Split" && after->SinceVersion() >= 18 && node.input_size() < 2) return false;  // needs num_outputs
  const auto change = reformed.find(name);
  return change == reformed.end() || change->second <= before->SinceVersion() || change->second > to;
}

// Raises a function to the model's opset if possible: ONNX's checker requires one version for a model and its
// functions.
void raise_opset(onnx::FunctionProto& function, int opset) {
  for (onnx::OperatorSetIdProto& import : *function.mutable_opset_import()) {
    if (!import.domain().empty() || import.version() >= opset) continue;
    const int from = static_cast<int>(import.version());
    const auto stays = [&](const onnx::NodeProto& node) { return keeps_meaning(node, from, opset); };
    if (std::ranges::all_of(function.node(), stays)) import.set_version(opset);
  }
}

}  // namespace

UserFunctions::UserFunctions() : model_(std::make_unique<onnx::ModelProto>()) {}
UserFunctions::~UserFunctions() = default;

std::shared_ptr<const UserFunctions> UserFunctions::read(const std::string& path, int opset) {
  const Place place{.file = path, .stage = "read"};
  const auto file = MappedFile::open(path);
  std::shared_ptr<UserFunctions> result(new UserFunctions());
  if (file->size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !result->model_->ParseFromArray(file->data(), static_cast<int>(file->size()))) {
    throw Error(Code::wrong_kind, path + " is not an ONNX model", "pass a model file with functions", place);
  }
  for (const onnx::FunctionProto& function : result->model_->functions()) {
    result->by_name_.try_emplace({function.domain(), function.name()}, &function);
  }
  if (result->operators().empty()) {
    throw Error(Code::wrong_kind, path + " has no function in a domain 'whence.NAMESPACE'",
                "name the function after the operator: `op` of the domain `whence.mylib` converts mylib::op", place);
  }
  std::map<const onnx::FunctionProto*, bool> finished;
  for (const onnx::FunctionProto& function : result->model_->functions()) {
    refuse_recursion(*result, function, 0, finished, place);
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      if (!import.domain().empty() || import.version() <= opset) continue;
      throw Error(Code::converter_refused,
                  "the function " + function.domain() + "::" + function.name() + " needs opset " +
                      std::to_string(import.version()) + ", the export has " + std::to_string(opset),
                  "export with --opset " + std::to_string(import.version()), place);
    }
  }
  for (onnx::FunctionProto& function : *result->model_->mutable_functions()) raise_opset(function, opset);
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
  const auto found = by_name_.find({domain, name});
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<const onnx::FunctionProto*> UserFunctions::called_by(const onnx::FunctionProto& function) const {
  std::vector<const onnx::NodeProto*> nodes;
  collect_nodes(function.node(), nodes);
  std::vector<const onnx::FunctionProto*> called;
  std::set<const onnx::FunctionProto*> known;
  for (const onnx::NodeProto* node : nodes) {
    const onnx::FunctionProto* found = find(node->domain(), node->op_type());
    if (found != nullptr && known.insert(found).second) called.push_back(found);
  }
  return called;
}

}  // namespace whence::write
