// y = permute_copy(x)   ->   y = permute(x)
// The copying forms of views, which functionalised programs hold. Once nothing writes any more, a copy is as good as a
// view.
#include <string_view>
#include <unordered_map>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"

namespace whence::lower {
namespace {

// By operator name; overloads and arguments are the view's own.
const std::unordered_map<std::string_view, std::string_view>& views() {
  static const std::unordered_map<std::string_view, std::string_view> table{
      {"aten::_neg_view_copy", "aten::_neg_view"},
      {"aten::_conj_copy", "aten::_conj"},
      {"aten::alias_copy", "aten::alias"},
      {"aten::as_strided_copy", "aten::as_strided"},
      {"aten::diagonal_copy", "aten::diagonal"},
      {"aten::expand_copy", "aten::expand"},
      {"aten::narrow_copy", "aten::narrow"},
      {"aten::permute_copy", "aten::permute"},
      {"aten::select_copy", "aten::select"},
      {"aten::slice_copy", "aten::slice"},
      {"aten::split_copy", "aten::split"},
      {"aten::split_with_sizes_copy", "aten::split_with_sizes"},
      {"aten::squeeze_copy", "aten::squeeze"},
      {"aten::t_copy", "aten::t"},
      {"aten::transpose_copy", "aten::transpose"},
      {"aten::unbind_copy", "aten::unbind"},
      {"aten::unfold_copy", "aten::unfold"},
      {"aten::unsqueeze_copy", "aten::unsqueeze"},
      {"aten::view_as_complex_copy", "aten::view_as_complex"},
      {"aten::view_as_real_copy", "aten::view_as_real"},
      {"aten::view_copy", "aten::view"},
  };
  return table;
}

}  // namespace

void views_for_copies(Lowering& lowering) {
  each_node(lowering.program.body, [](Node& node) {
    if (const auto view = views().find(node.target); view != views().end()) node.target = view->second;
  });
}

}  // namespace whence::lower
