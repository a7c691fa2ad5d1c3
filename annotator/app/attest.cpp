#include "annotator/app/attest.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "annotator/app/separate_files.h"
#include "annotator/metadata/attribution.h"
#include "schema/files/files.h"
#include "schema/files/output_files.h"
#include "schema/files/sha256.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {
namespace {

namespace fs = std::filesystem;

using derivation::FileDigest;
using derivation::FileTensor;
using derivation::NodeVerdict;
using derivation::Verdict;

std::vector<std::string> modules_of(const FileTensor& tensor) {
  std::set<std::string> modules;
  for (const derivation::Use& use : tensor.uses) {
    const metadata::Attribution origin = metadata::attribution_of(*use.node, nullptr);
    modules.insert(origin.modules.begin(), origin.modules.end());
  }
  return {modules.begin(), modules.end()};
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
  return count(Verdict::unaccounted).tensors == 0 && count(NodeVerdict::unaccounted) == 0;
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
  std::vector<NodeVerdict> verdicts(nodes.size(), NodeVerdict::unaccounted);
  if (!options.sidecar.empty()) {
    const Program program = unwrap(read_sidecar(options.sidecar), report.notes).program;
    verdicts = derivation::node_verdicts(*file.model, program, *file.tensors, file.derivations);
  }
  for (std::size_t i = 0; i < file.derivations.size(); ++i) {
    const FileTensor& tensor = file.tensors->all()[i];
    report.tensors.push_back({std::string(tensor.name), std::string(name_of(from_onnx(tensor.tensor->data_type))),
                              tensor.tensor->dims, std::move(file.derivations[i]), modules_of(tensor)});
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const onnx_file::OnnxNode& node = *nodes[i];
    const std::string_view name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    report.nodes.push_back(
        {std::string(name), std::string(node.op_type), verdicts[i], metadata::attribution_of(node, nullptr).modules});
  }
  report.absent = std::move(file.absent);
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
