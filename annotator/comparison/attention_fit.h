// Compares the attention nodes of a file with a program's: the number of heads, the scale, whether positions see later
// ones, and which projections are query, key and value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/mask_fit.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class AttentionFit {
 public:
  explicit AttentionFit(const std::vector<derivation::ProgramForm>& forms);

  // What a file computes the operands of an attention from.
  struct Operands {
    // Returns the operations of the products from which a value is computed, without other products between; empty if
    // they are unknown.
    std::function<std::set<std::int32_t>(std::string_view value)> products = {};
    // Returns the first rows of parameters that the weights of these products hold; empty if they are unknown.
    std::function<std::set<std::int64_t>(std::string_view value)> first_rows = {};
  };
  // Returns what differs; "" if nothing, or if the operations are no attention.
  std::string difference(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                         const derivation::FileTensors& tensors, const Operands& operands, bool is_drafted,
                         MaskFit& masks, const WrittenOut& written) const;
  // Returns which positions see others than in the program; "" if none, nullopt if it is unknown. `is_drafted`: the
  // node stands for a GroupQueryAttention, whose mask is that of padding (written_out.h).
  std::optional<std::string> mask_difference(const onnx_file::OnnxNode& node,
                                             const std::vector<std::int32_t>& operations, bool is_drafted,
                                             MaskFit& masks) const;

 private:
  struct Attention {
    std::int64_t heads = 0, key_heads = 0, head_size = 0;
    double scale = 1;
    bool is_causal = false;
    bool has_mask = false;                                        // that depends on an input
    bool turns_both = false;                                      // RotaryEmbedding turns query and key
    std::vector<ProgramMask> masks = {};                          // by form
    std::vector<std::optional<std::int64_t>> first_columns = {};  // of the results of those products
    std::vector<std::set<std::int32_t>> operands =
        {};  // by query, key, value: the operations of the products before them
  };
  void add(const graph::Graph& graph);
  static std::string rotation_difference(const onnx_file::OnnxNode& node, const Attention& ours,
                                         const derivation::FileTensors& tensors, const WrittenOut& written);
  const Attention* find(const std::vector<std::int32_t>& operations) const;

  std::map<std::int32_t, Attention> attentions_;  // by operation
};

}  // namespace whence::comparison
