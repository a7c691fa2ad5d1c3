#include "annotator/onnx_file/tensor_rewrite.h"

#include <filesystem>
#include <map>
#include <utility>

#include "annotator/onnx_file/data_file.h"
#include "annotator/onnx_file/external_bytes.h"
#include "annotator/onnx_file/tensor_bytes.h"
#include "annotator/origin/keys/undo.h"

namespace whence::onnx_file {
namespace {

namespace fs = std::filesystem;

struct Span {
  std::uint64_t size = 0;
  const std::function<Bytes()>* make = nullptr;
};
using Spans = std::map<std::uint64_t, Span>;  // by offset

// Copies the data file with the spans replaced.
void write_patched(const std::string& data, const Spans& spans, AtomicFile& to) {
  const auto file = MappedFile::open(data);
  std::uint64_t at = 0;
  for (const auto& [offset, span] : spans) {
    if (offset < at) {
      throw Error(Code::unsupported_feature, "tensors overlap in the data file " + data,
                  "save the model with a range of its own for each tensor", {.file = data, .stage = "write"});
    }
    if (offset > at) to.write(file->slice(file, at, offset - at));
    to.write((*span.make)());
    at = offset + span.size;
  }
  if (at < file->size()) to.write(file->slice(file, at, file->size() - at));
}

}  // namespace

void rewrite_tensors(const OnnxSummary& model, const ModelSource& input, ModelOutput output,
                     const std::vector<NewTensor>& tensors, const GraphAddition& addition) {
  output.copy_data = true;
  TensorBytes present(input.path);
  ModelEdit edit;
  std::map<std::string, Spans> patches;  // by location
  std::string typed;
  for (const NewTensor& each : tensors) {
    const OnnxTensor& tensor = *each.tensor;
    const std::uint64_t size = present.of(tensor, typed).size();
    if (tensor.external) {
      const auto location = std::string(find_property(tensor.external_data, "location").value_or(""));
      const auto offset = parse_data_number(find_property(tensor.external_data, "offset").value_or("0"));
      patches[location].emplace(offset.value_or(0), Span{size, &each.make});
    } else {
      const auto position = static_cast<std::uint64_t>(tensor.message.data() - model.file->text().data());
      edit.tensors.emplace(position, TensorEdit{size, each.make});
    }
  }
  const CarriedData data(data_files_of(model), input.stands_for, output);
  edit.locations = data.new_locations();
  edit.graph_fields = addition.graph_fields;
  NodeEditor no_node_edits;
  const OnnxRewrite rewrite(MappedFile::open(input.path, input.stands_for),
                            addition.nodes != nullptr ? *addition.nodes : no_node_edits, edit);
  OutputFiles files;
  AtomicFile& to = files.add(output.path);
  for (const auto& [location, name] : edit.locations) {
    const fs::path source = require_data_file(input.stands_for, location, {.file = input.path, .stage = "write"});
    const fs::path target = fs::path(output.path).parent_path() / name;
    write_patched(source.string(), patches[location], add_new_data_file(target.string(), output, files));
  }
  rewrite.write(to);
  files.commit();
}

}  // namespace whence::onnx_file
