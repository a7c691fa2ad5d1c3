#include "annotator/match/scope_in_name.h"

#include "annotator/match/file_structure.h"
#include "annotator/match/operator_name.h"
#include "annotator/origin/node_name.h"

namespace whence::match {

ScopeReader::ScopeReader(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxNode* node : nodes_with_functions(model)) used_.insert(node->op_type);
}

// Accepts the operator with and without what is appended to tell nodes and values apart: "Slice", "Slice_5",
// "Add_output_0", "MatMul_quant".
bool ScopeReader::names_operator(std::string_view segment) const {
  const std::string_view stem = segment.substr(0, segment.find('_'));
  if (stem.empty()) return used_.contains(segment);
  return used_.contains(stem) || used_.contains(segment) || is_onnx_operator(stem);
}

// The last segment that is an operator: modules may be called like one ("/Conv/Conv"), what tools append is not.
ScopeInName ScopeReader::read(std::string_view name) const {
  std::string_view rest = name;
  while (true) {
    const std::size_t slash = rest.rfind('/');
    if (slash == std::string_view::npos) break;
    if (names_operator(rest.substr(slash + 1))) {
      const origin::NamePath found = origin::path_in_name(rest);
      return {found.path, found.below, rest.size() != name.size(), true};
    }
    rest = rest.substr(0, slash);
  }
  const origin::NamePath found = origin::path_in_name(name);
  return {found.path, found.below, false, false};
}

}  // namespace whence::match
