#include "annotator/app/attest.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <utility>

#include "annotator/app/separate_files.h"
#include "annotator/derivation/stated_rows.h"
#include "annotator/metadata/attribution.h"
#include "schema/files/files.h"
#include "schema/files/output_files.h"
#include "schema/files/sha256.h"
#include "schema/flat_map.h"
#include "schema/printable.h"

namespace whence::app {
namespace {

namespace fs = std::filesystem;

using comparison::NodeVerdict;
using derivation::FileDigest;
using derivation::FileTensor;
using derivation::Verdict;

// The modules of a file's nodes: those that the file names, or else those of the operations that they were matched to,
// or else those of the nodes next to them.
class NodeModules {
 public:
  NodeModules(const std::vector<const onnx_file::OnnxNode*>& nodes, const std::vector<comparison::NodeFinding>& found) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      auto& modules = modules_[nodes[i]];
      modules = metadata::attribution_of(*nodes[i], nullptr).modules;
      if (modules.empty()) modules = found[i].modules;
    }
    add_neighbours(nodes);
  }

  const std::vector<std::string>& of(const onnx_file::OnnxNode* node) const {
    static const std::vector<std::string> none;
    const auto found = modules_.find(node);
    return found == modules_.end() ? none : found->second;
  }

  std::vector<std::string> of(const FileTensor& tensor) const {
    std::set<std::string> modules;
    for (const derivation::Use& use : tensor.uses) modules.insert(of(use.node).begin(), of(use.node).end());
    return {modules.begin(), modules.end()};
  }

 private:
  void add_neighbours(const std::vector<const onnx_file::OnnxNode*>& nodes) {
    FlatMap<std::string_view, const onnx_file::OnnxNode*> makers;
    for (const onnx_file::OnnxNode* node : nodes) {
      for (const std::string_view output : node->outputs) makers.emplace(output, node);
    }
    const auto take = [&](const onnx_file::OnnxNode* node, const onnx_file::OnnxNode* from) {
      if (modules_[node].empty()) modules_[node] = modules_[from];
    };
    const auto for_each_maker = [&](const onnx_file::OnnxNode* node, const auto& visit) {
      for (const std::string_view input : node->inputs) {
        if (const auto maker = makers.find(input); maker != makers.end()) visit(maker->second);
      }
    };
    // From readers to makers against the order of the nodes, then from makers to readers.
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      for_each_maker(*node, [&](const onnx_file::OnnxNode* maker) { take(maker, *node); });
    }
    for (const onnx_file::OnnxNode* node : nodes) {
      for_each_maker(node, [&](const onnx_file::OnnxNode* maker) { take(node, maker); });
    }
  }

  std::unordered_map<const onnx_file::OnnxNode*, std::vector<std::string>> modules_;
};

// Adds a remark to each tensor that is the default of an input, and a note about them.
void note_defaults(const onnx_file::OnnxGraph& graph, AttestReport& report) {
  std::set<std::string_view> inputs;
  for (const onnx_file::OnnxValue& input : graph.inputs) inputs.insert(input.name);
  std::string first;
  std::size_t count = 0;
  for (AttestedTensor& tensor : report.tensors) {
    if (!inputs.contains(tensor.name)) continue;
    if (count++ == 0) first = tensor.name;
    std::string& remark = tensor.derivation.remark;
    remark += (remark.empty() ? "" : "; ") + std::string("the default of an input");
  }
  if (count == 0) return;
  const bool is_one = count == 1;
  Diagnostic found =
      note(Code::usage,
           std::to_string(count) + (is_one ? " tensor is the default of an input" : " tensors are defaults of inputs") +
               ", which whoever runs the file may replace: '" + printable(first) + (is_one ? "'" : "', ..."),
           {.stage = "attest"});
  found.remedy = "remove it from the graph's inputs if it is no input";
  report.notes.push_back(std::move(found));
}

FileDigest digest_file(const std::string& path) { return {base_name(path), sha256_of_file(path)}; }

// Returns the files of a checkpoint: the file itself, or those of a folder.
std::vector<FileDigest> checkpoint_files(const std::string& path) {
  std::vector<std::string> files;
  std::error_code failure;
  if (!fs::is_directory(path, failure)) {
    files.push_back(path);
  } else {
    for (fs::directory_iterator entry(path, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
      std::error_code ignored;
      if (entry->is_regular_file(ignored)) files.push_back(entry->path().string());
    }
    if (failure) {
      throw Error(Code::missing_file, "the folder cannot be read: " + failure.message(), "check its permissions",
                  {.file = path, .stage = "read"});
    }
    std::ranges::sort(files);
  }
  std::vector<FileDigest> digests;
  std::ranges::transform(files, std::back_inserter(digests), digest_file);
  return digests;
}

}  // namespace

AttestReport::Count AttestReport::count(Verdict verdict) const {
  Count count;
  for (const AttestedTensor& tensor : tensors) {
    if (tensor.derivation.verdict != verdict) continue;
    ++count.tensors;
    count.bytes += tensor.derivation.bytes;
  }
  return count;
}

std::int64_t AttestReport::count(NodeVerdict verdict) const {
  return std::ranges::count(nodes, verdict, &AttestedNode::verdict);
}

bool AttestReport::all_accounted() const {
  return count(Verdict::unaccounted).tensors == 0 && count(NodeVerdict::unaccounted) == 0 && differences.empty() &&
         std::ranges::none_of(absent, &AbsentParameter::has_effect);
}

AttestReport attest(const std::string& model_path, const AttestOptions& options) {
  if (options.weights.empty()) {
    throw Error(Code::usage, "the checkpoint is missing",
                "pass --weights with the checkpoint that the file was made from", {.stage = "command line"});
  }
  const std::vector<NamedFile> inputs = {
      {"the model", model_path}, {"--weights", options.weights}, {"the sidecar", options.sidecar}};
  require_separate(inputs, {{"--output", options.statement}, {"--bom", options.bom}}, "");
  AttestReport report;
  DerivedFile file = derive_file(model_path, {options.weights, options.sidecar}, report.notes);
  const auto nodes = onnx_file::all_nodes(file.model->graph);
  std::vector<comparison::NodeFinding> found(nodes.size());
  if (file.program) {
    found = comparison::node_findings(*file.model, *file.program, file.forms, *file.weights, *file.tensors,
                                      *file.contents, file.derivations, report.differences);
  }
  const NodeModules modules(nodes, found);
  for (std::size_t i = 0; i < file.derivations.size(); ++i) {
    const FileTensor& tensor = file.tensors->all()[i];
    report.tensors.push_back({std::string(tensor.name), derivation::dtype_name(tensor.tensor->data_type),
                              tensor.tensor->dims, std::move(file.derivations[i]), modules.of(tensor)});
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const onnx_file::OnnxNode& node = *nodes[i];
    report.nodes.push_back(
        {derivation::node_name(node), std::string(node.op_type), found[i].verdict, modules.of(&node), found[i].remark});
  }
  note_defaults(file.model->graph, report);
  report.absent = std::move(file.absent);
  report.prefix = std::move(file.prefix);
  report.model = derivation::digests_of(model_path, *file.model);
  report.sources = checkpoint_files(options.weights);
  if (!options.sidecar.empty()) report.sources.push_back(digest_file(options.sidecar));
  OutputFiles files;
  if (!options.statement.empty()) files.add(options.statement).write(statement_of(report));
  if (!options.bom.empty()) files.add(options.bom).write(bill_of_materials_of(report));
  files.commit();
  return report;
}

}  // namespace whence::app
