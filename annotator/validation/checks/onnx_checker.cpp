// V401, with --full: onnx's own checker, with shape inference in strict mode. It parses the whole model with its
// weights, so it needs more memory than all other checks together.
#include <google/protobuf/io/zero_copy_stream.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include "annotator/validation/checks.h"
#include "schema/files/files.h"
#include "schema/freed_memory.h"

namespace whence::validation {
namespace {

// Streams a mapped file to protobuf and releases each page after protobuf has copied its content.
class ReleasingStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit ReleasingStream(const MappedFile& file) : file_(file) {}

  bool Next(const void** data, int* size) override {
    if (at_ >= piece) file_.release(at_ - piece, piece);
    if (at_ == file_.size()) return false;
    const std::size_t count = std::min(piece, file_.size() - at_);
    *data = file_.data() + at_;
    *size = static_cast<int>(count);
    at_ += count;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<std::size_t>(count); }
  bool Skip(int count) override {
    at_ = std::min(at_ + static_cast<std::size_t>(count), file_.size());
    return at_ < file_.size();
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(at_); }

 private:
  static constexpr std::size_t piece = std::size_t{1} << 22U;
  const MappedFile& file_;
  std::size_t at_ = 0;
};

// Checks like check_model(path), but without reading the file into a string in addition to the model.
void check_without_second_copy(const MappedFile& file) {
  constexpr std::size_t protobuf_limit = (std::size_t{1} << 31U) - 1;
  onnx::ModelProto model;
  ReleasingStream bytes(file);
  if (file.size() > protobuf_limit || !model.ParseFromZeroCopyStream(&bytes)) {
    return onnx::checker::check_model(file.path(), /*full_check=*/true);  // reports the error
  }
  // Drops the nodes' metadata, often the larger part of a model: the checker does not examine it.
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>().Swap(node.mutable_metadata_props());
  }
  release_freed_memory();
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(/*check_type_val=*/true, /*strict_mode_val=*/1));
}

std::vector<FindingItem> find_onnx_checker(const CheckContext& context) {
  const std::string& path = context.model.file->path();
  try {
    if (context.external.empty()) {
      check_without_second_copy(*context.model.file);
    } else {
      onnx::checker::check_model(path, /*full_check=*/true);  // loads external weights from the file's folder
    }
  } catch (const std::exception& error) {  // onnx throws ValidationError, InferenceError and bare runtime_errors
    return {{path, error.what()}};
  }
  return {};
}

}  // namespace

const Check onnx_checker_check = {
    {"V401", "onnx_checker", "errors of onnx's own checker",
     "report it to the author of the tool that wrote the file; for whence's own exports, to whence",
     "Runs with shape inference in strict mode. It parses the whole model with its weights, "
     "so it needs more memory than all other checks together. Runs only with --full.",
     Severity::error},
    find_onnx_checker,
    true};

}  // namespace whence::validation
