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

constexpr int deepest = 1000;  // calls in calls

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

// Follows every call once: `finished` holds the functions that were met, and whether all that they call was.
void refuse_recursion(const UserFunctions& all, const onnx::FunctionProto& function, int depth,
                      std::map<const onnx::FunctionProto*, bool>& finished, const Place& place) {
  const auto [entry, first] = finished.try_emplace(&function, false);
  if (entry->second) return;
  const std::string name = "the function " + function.domain() + "::" + function.name();
  if (!first)
    throw Error(Code::corrupt_file, name + " calls itself", "ONNX has no recursion: write it as a Loop", place);
  if (depth > deepest) {
    throw Error(Code::over_limit, name + " is called by others more than " + std::to_string(deepest) + " deep",
                "write functions that are called once out into their callers", place);
  }
  for (const onnx::FunctionProto* called : all.called_by(function)) {
    refuse_recursion(all, *called, depth + 1, finished, place);
  }
  entry->second = true;
}

// The opset at which the same call of an operator began to mean something else, which its schema does not tell: another
// default, names of modes, shape of an input. python/whence/converters/node_recorder.py has the same table for what it calls.
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

// True if a node means at opset `to` what it means at `from`: most newer versions of operators take more types, and
// some have another form.
bool means_the_same(const onnx::NodeProto& node, int from, int to) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const auto& nodes = attribute.g().node();
    if (!std::ranges::all_of(nodes, [&](const auto& inner) { return means_the_same(inner, from, to); })) return false;
  }
  const std::string& name = node.op_type();
  if (!node.domain().empty()) return true;
  const auto *before = onnx::OpSchemaRegistry::Schema(name, from, ""),
             *after = onnx::OpSchemaRegistry::Schema(name, to, "");
  if (before == after) return true;
  if (before == nullptr || after == nullptr) return false;
  const auto known = [&](const auto& attribute) { return after->attributes().contains(attribute.name()); };
  if (!std::ranges::all_of(node.attribute(), known)) return false;                            // it is an input now
  if (name == "Split" && after->SinceVersion() >= 18 && node.input_size() < 2) return false;  // how many parts?
  const auto change = reformed.find(name);
  return change == reformed.end() || change->second <= before->SinceVersion() || change->second > to;
}

// A model and its functions are to name one version of ONNX's operators, for ONNX's checker.
void raise_opset(onnx::FunctionProto& function, int opset) {
  for (onnx::OperatorSetIdProto& import : *function.mutable_opset_import()) {
    if (!import.domain().empty() || import.version() >= opset) continue;
    const int from = static_cast<int>(import.version());
    const auto stays = [&](const onnx::NodeProto& node) { return means_the_same(node, from, opset); };
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
    throw Error(Code::wrong_kind, path + " is not an ONNX model", "give a model file that holds functions", place);
  }
  for (const onnx::FunctionProto& function : result->model_->functions()) {
    result->by_name_.try_emplace({function.domain(), function.name()}, &function);
  }
  if (result->operators().empty()) {
    throw Error(Code::wrong_kind, path + " holds no function of a domain 'whence.NAMESPACE'",
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
