// TextKeys: keys for nodes that were matched without a program. They are copied from the nodes of an annotated file, or
// written for modules that are known only by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/annotation/annotate_foreign.h"
#include "annotator/match/reference.h"
#include "annotator/metadata/call_path.h"

namespace whence::annotation {

class TextKeys : public KeySource {
 public:
  // `nodes`: the reference's units as nodes; empty if units are modules. `program`: the program whose operations the
  // nodes' stamps number, or empty. `reference` and `nodes` must outlive this object.
  TextKeys(const match::Reference& reference, const std::vector<const onnx_file::OnnxNode*>& nodes, std::string program,
           std::vector<std::string_view> requested_keys)
      : reference_(reference),
        nodes_(nodes),
        program_(std::move(program)),
        requested_keys_(std::move(requested_keys)) {}

  std::vector<std::pair<std::string_view, std::string>> keys_of(const match::NodeMatch& match,
                                                                std::string_view op_type) const override;
  std::string path_of(const match::NodeMatch& match) const override;
  std::string_view own_name(const match::NodeMatch& match, std::string_view op_type) const override;
  bool is_requested(std::string_view key) const override;
  std::string program() const override { return program_; }
  // Returns the operations in the stamps of all matched nodes; nullopt if one of them has no stamp.
  std::optional<origin::NodeOrigin> origin_of(const match::NodeMatch& match) const override;

 private:
  const onnx_file::OnnxNode* node_of(match::UnitIndex unit) const;            // null if units are not nodes
  const onnx_file::OnnxNode* only_node(const match::NodeMatch& match) const;  // null if there are several or none
  // False for confidence `ancestor`, where only an enclosing module is known, unless that holds for the reference too.
  bool has_certain_operations(const match::NodeMatch& match) const;
  std::vector<std::string> modules_of(const match::NodeMatch& match) const;
  // Returns the module of the main operation of an operator that replaced the matched units, which are several.
  std::string primary_of(const match::NodeMatch& match, std::string_view op_type) const;
  std::vector<std::string> ids_of(const match::NodeMatch& match) const;
  // Returns the call path of the match's scope, root first; nullopt if the nodes have no call numbers.
  std::optional<std::vector<metadata::CalledModule>> call_path_of(const match::NodeMatch& match) const;
  static std::optional<std::string> value_in_call_path(std::string_view key,
                                                       const std::vector<metadata::CalledModule>& call_path);

  const match::Reference& reference_;
  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  std::string program_;
  std::vector<std::string_view> requested_keys_;
};

}  // namespace whence::annotation
