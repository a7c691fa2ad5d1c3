// TextKeys: keys for nodes that were matched without a program: with the nodes of an annotated file, whose keys are
// taken over, or with modules that are known by name only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/annotation/annotate_foreign.h"
#include "annotator/match/reference.h"
#include "annotator/metadata/way.h"

namespace whence::annotation {

class TextKeys : public KeySource {
 public:
  // `nodes`: those that the reference's units are, or none. `program`: whose operations their stamps name, or empty.
  // Reference and nodes outlive the keys.
  TextKeys(const match::Reference& reference, const std::vector<const onnx_file::OnnxNode*>& nodes, std::string program,
           std::vector<std::string_view> requested_keys)
      : reference_(reference),
        nodes_(nodes),
        program_(std::move(program)),
        requested_keys_(std::move(requested_keys)) {}

  std::vector<std::pair<std::string_view, std::string>> keys_of(const match::NodeMatch& match) const override;
  std::string path_of(const match::NodeMatch& match) const override;
  std::string_view own_name(const match::NodeMatch& match, std::string_view op_type) const override;
  bool wants(std::string_view key) const override;
  std::string program() const override { return program_; }
  // The operations of all the nodes' stamps together; nullopt if one of them has no stamp.
  std::optional<origin::NodeOrigin> origin_of(const match::NodeMatch& match) const override;

 private:
  const onnx_file::OnnxNode* node_of(match::UnitIndex unit) const;            // null when units are not nodes
  const onnx_file::OnnxNode* only_node(const match::NodeMatch& match) const;  // null when there are several or none
  // False for an `ancestor`, of which the module around it is known and not which of its nodes it was.
  bool knows_operations(const match::NodeMatch& match) const;
  std::vector<std::string> modules_of(const match::NodeMatch& match) const;
  std::vector<std::string> ids_of(const match::NodeMatch& match) const;
  // The calls that the match's scope was made in, root first; nullopt when the nodes do not number them.
  std::optional<std::vector<metadata::CalledModule>> way_of(const match::NodeMatch& match) const;
  static std::optional<std::string> value_in_way(std::string_view key, const std::vector<metadata::CalledModule>& way);

  const match::Reference& reference_;
  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  std::string program_;
  std::vector<std::string_view> requested_keys_;
};

}  // namespace whence::annotation
