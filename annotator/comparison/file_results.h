// FileResults: what a file computes from its constants alone, such as a table of positions times a weight. Tools and
// exporters write such a computation in ways of their own, so that its results are compared, and not its nodes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

class FileResults {
 public:
  // Returns what the operations of a node read in the program that follows from parameters alone.
  using ReadInProgram = std::function<std::vector<const TensorData*>(const onnx_file::OnnxNode&)>;

  // All must outlive this object.
  FileResults(const std::vector<const onnx_file::OnnxNode*>& nodes, const derivation::FileTensors& tensors,
              derivation::Contents& contents);

  // Returns the nodes that compute from constants alone, all of whose results the program's operations read at the same
  // places.
  std::set<const onnx_file::OnnxNode*> proved(const ReadInProgram& read_in_program);

 private:
  // A result that nodes read which depend on the file's inputs.
  struct Result {
    std::string_view name;
    std::vector<const onnx_file::OnnxNode*> readers;
  };

  std::vector<Result> results() const;
  void add_readers(std::string_view value, std::vector<const onnx_file::OnnxNode*>& readers, int depth) const;
  bool is_in_program(const Result& result, const ReadInProgram& read_in_program);
  const TensorData* value(std::string_view name);
  // Returns the nodes that compute a value.
  std::set<const onnx_file::OnnxNode*> before(std::string_view value) const;

  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
  std::vector<const onnx_file::OnnxNode*> alone_;  // nodes that read constants alone
  std::set<std::string_view> computed_;            // their outputs
  std::map<std::string_view, std::optional<TensorData>> values_;
};

}  // namespace whence::comparison
