#include "annotator/derivation/structure_inputs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace whence::derivation {
namespace {

// The first of the inputs that are sizes, axes or positions, and the last one.
struct Slots {
  std::string_view op_type;
  std::size_t first, last;
};
constexpr std::size_t all = 99;
constexpr std::array slots = {
    Slots{"Reshape", 1, 1},
    Slots{"Expand", 1, 1},
    Slots{"Tile", 1, 1},
    Slots{"ConstantOfShape", 0, 0},
    Slots{"Slice", 1, 4},
    Slots{"Split", 1, 1},
    Slots{"SplitToSequence", 1, 1},
    Slots{"SequenceAt", 1, 1},
    Slots{"Squeeze", 1, 1},
    Slots{"Unsqueeze", 1, 1},
    Slots{"Pad", 1, 1},
    Slots{"Pad", 3, 3},
    Slots{"Resize", 3, 3},
    Slots{"CenterCropPad", 1, 1},
    Slots{"Col2Im", 1, 2},
    Slots{"Gather", 1, 1},
    Slots{"GatherElements", 1, 1},
    Slots{"GatherND", 1, 1},
    Slots{"ScatterElements", 1, 1},
    Slots{"ScatterND", 1, 1},
    Slots{"TopK", 1, 1},
    Slots{"OneHot", 0, 1},
    Slots{"Range", 0, 2},
    Slots{"CumSum", 1, 1},
    Slots{"Trilu", 1, 1},
    Slots{"DFT", 1, 2},
    Slots{"STFT", 1, 3},
    Slots{"MelWeightMatrix", 0, 2},
    Slots{"HannWindow", 0, 0},
    Slots{"HammingWindow", 0, 0},
    Slots{"BlackmanWindow", 0, 0},
    Slots{"MaxUnpool", 2, 2},
    Slots{"MaxRoiPool", 1, 1},
    Slots{"RoiAlign", 2, 2},
    Slots{"EyeLike", 0, 0},
    Slots{"NonMaxSuppression", 2, 2},
    Slots{"Loop", 0, 1},
    Slots{"If", 0, 0},
    Slots{"RotaryEmbedding", 1, 1},
    Slots{"EmbedLayerNormalization", 0, 1},
    Slots{"GroupQueryAttention", 5, 6},
    Slots{"GroupQueryAttention", 9, 9},
    // Arithmetic of integers gives integers, which become numbers of the model only by a Cast.
    Slots{"Concat", 0, all},
    Slots{"Identity", 0, 0},
    Slots{"Add", 0, 1},
    Slots{"Sub", 0, 1},
    Slots{"Mul", 0, 1},
    Slots{"Div", 0, 1},
    Slots{"Mod", 0, 1},
    Slots{"Min", 0, all},
    Slots{"Max", 0, all},
    Slots{"Equal", 0, 1},
    Slots{"Less", 0, 1},
    Slots{"LessOrEqual", 0, 1},
    Slots{"Greater", 0, 1},
    Slots{"GreaterOrEqual", 0, 1},
    Slots{"And", 0, 1},
    Slots{"Or", 0, 1},
    Slots{"Xor", 0, 1},
    Slots{"Not", 0, 0},
    Slots{"BitShift", 0, 1},
    Slots{"Where", 0, 2},
};

bool is_structure_input(const Use& use) {
  if (use.node->op_type.starts_with("Reduce")) return use.slot == 1;
  return std::ranges::any_of(slots, [&](const Slots& each) {
    return each.op_type == use.node->op_type && use.slot >= each.first && use.slot <= each.last;
  });
}

}  // namespace

bool is_structure(const FileTensor& tensor) {
  return !tensor.is_output && !tensor.uses.empty() && std::ranges::all_of(tensor.uses, is_structure_input);
}

}  // namespace whence::derivation
