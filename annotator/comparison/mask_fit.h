// MaskFit: compares which positions each position sees in the attentions of a file and of a program. Both masks are
// evaluated for the sizes of the recording, without padding and with padding at both ends, and in a file with caches
// also after half of the positions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/comparison/written_out.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/graph/graph.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

inline constexpr std::size_t attention_mask_slot = 3;

// The mask of an attention of a program, in one of its forms.
struct ProgramMask {
  const graph::Graph* graph = nullptr;
  graph::GraphValueId mask = graph::no_value;
  bool is_causal = false;  // beside the mask
};

// The mask of an attention of a file.
struct FileMask {
  std::string_view value = {};  // "": none
  bool is_padding = false;      // [batch, positions], not yet by rows
  bool is_causal = false;       // beside the mask
  std::int64_t window = -1;     // of positions up to its own that a position sees; -1: all
  auto operator<=>(const FileMask&) const = default;
};

class MaskFit {
 public:
  // All must outlive this object.
  MaskFit(const onnx_file::OnnxGraph& graph, const WrittenOut& written, const derivation::FileTensors& tensors,
          derivation::Contents& contents)
      : graph_(graph), written_(written), tensors_(tensors), contents_(contents) {}

  // Returns the first difference from the program's mask, in one of its forms; "" if there is none, and nullopt if a
  // mask cannot be evaluated.
  std::optional<std::string> difference(const FileMask& mask, const std::vector<ProgramMask>& forms);

 private:
  using Key = std::pair<FileMask, std::pair<const graph::Graph*, std::pair<graph::GraphValueId, bool>>>;
  std::optional<std::string> compare(const FileMask& mask, const ProgramMask& form);

  const onnx_file::OnnxGraph& graph_;
  const WrittenOut& written_;
  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
  std::map<Key, std::optional<std::string>> results_;
};

// Returns the nodes whose results serve nothing but the masks of these attentions.
std::set<std::size_t> nodes_of_masks(const std::vector<const onnx_file::OnnxNode*>& nodes,
                                     const std::set<const onnx_file::OnnxNode*>& attentions,
                                     const onnx_file::OnnxGraph& graph, const derivation::FileTensors& tensors);

}  // namespace whence::comparison
