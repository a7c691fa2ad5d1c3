#include "schema/operator_facts.h"

#include <algorithm>

#include "schema/flat_map.h"

namespace whence {

const std::vector<OperatorFacts>& all_operator_facts() {
  static const std::vector<OperatorFacts> rows = {
      {.name = "aten::_conj", .memory = ResultMemory::view},
      {.name = "aten::_index_put_impl_", .reads_across = true},
      {.name = "aten::_neg_view", .memory = ResultMemory::view},
      {.name = "aten::_pack_padded_sequence", .sizes = ResultSizes::content},
      {.name = "aten::_reshape_alias", .memory = ResultMemory::view},
      {.name = "aten::_to_copy", .identity = Identity::same_dtype},
      {.name = "aten::_unique", .sizes = ResultSizes::content},
      {.name = "aten::_unique2", .sizes = ResultSizes::content},
      {.name = "aten::_unsafe_view", .identity = Identity::same_shape, .sizes = ResultSizes::same_count},
      {.name = "aten::addbmm_", .reads_across = true},
      {.name = "aten::addmm_", .reads_across = true},
      {.name = "aten::adjoint", .memory = ResultMemory::view},
      {.name = "aten::alias", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::alpha_dropout", .identity = Identity::not_training, .memory = ResultMemory::argument},
      {.name = "aten::argwhere", .sizes = ResultSizes::content},
      {.name = "aten::as_strided",
       .memory = ResultMemory::view,
       .sizes = ResultSizes::number,
       .repeats_elements = true},
      {.name = "aten::atleast_1d", .memory = ResultMemory::view},
      {.name = "aten::atleast_2d", .memory = ResultMemory::view},
      {.name = "aten::atleast_3d", .memory = ResultMemory::view},
      {.name = "aten::baddbmm_", .reads_across = true},
      {.name = "aten::bincount", .sizes = ResultSizes::content},
      {.name = "aten::bmm", .reads_across = true},
      {.name = "aten::broadcast_tensors", .memory = ResultMemory::elements, .repeats_elements = true},
      {.name = "aten::broadcast_to",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .repeats_elements = true},
      {.name = "aten::chunk", .memory = ResultMemory::view, .parts = true},
      {.name = "aten::clone", .identity = Identity::always},
      {.name = "aten::conj", .memory = ResultMemory::view},
      {.name = "aten::constant_pad_nd", .sizes = ResultSizes::number},
      {.name = "aten::contiguous", .identity = Identity::always, .memory = ResultMemory::by_strides},
      {.name = "aten::cpu", .identity = Identity::same_dtype, .memory = ResultMemory::argument},
      {.name = "aten::cuda", .identity = Identity::same_dtype, .memory = ResultMemory::argument},
      {.name = "aten::detach", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::detach_", .keeps_content = true},
      {.name = "aten::detach_copy", .identity = Identity::always},
      {.name = "aten::diagonal", .memory = ResultMemory::view},
      {.name = "aten::dim", .asks_type = true},
      {.name = "aten::dropout", .identity = Identity::not_training, .memory = ResultMemory::argument},
      {.name = "aten::dsplit", .memory = ResultMemory::view},
      {.name = "aten::einsum", .memory = ResultMemory::elements},
      {.name = "aten::expand",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .repeats_elements = true},
      {.name = "aten::expand_as", .memory = ResultMemory::view, .shape_only = 1, .repeats_elements = true},
      {.name = "aten::feature_alpha_dropout", .identity = Identity::not_training, .memory = ResultMemory::argument},
      {.name = "aten::feature_dropout", .identity = Identity::not_training, .memory = ResultMemory::argument},
      {.name = "aten::flatten",
       .identity = Identity::same_shape,
       .memory = ResultMemory::by_strides,
       .sizes = ResultSizes::same_count},
      {.name = "aten::full_like", .shape_only = 0},
      {.name = "aten::gru", .recurrent = true},
      {.name = "aten::hsplit", .memory = ResultMemory::view},
      {.name = "aten::imag", .memory = ResultMemory::view},
      {.name = "aten::index_add_", .reads_across = true},
      {.name = "aten::index_copy_", .reads_across = true},
      {.name = "aten::index_fill_", .reads_across = true},
      {.name = "aten::index_put_", .reads_across = true},
      {.name = "aten::index_reduce_", .reads_across = true},
      {.name = "aten::is_complex", .asks_type = true},
      {.name = "aten::is_contiguous", .asks_type = true, .asks_strides = true},
      {.name = "aten::is_floating_point", .asks_type = true},
      {.name = "aten::len", .shape_only = 0},
      {.name = "aten::lift", .identity = Identity::always},
      {.name = "aten::lift_fresh", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::lift_fresh_copy", .identity = Identity::always},
      {.name = "aten::linalg_diagonal", .memory = ResultMemory::view},
      {.name = "aten::lstm", .recurrent = true},
      {.name = "aten::mH", .memory = ResultMemory::view},
      {.name = "aten::mT", .memory = ResultMemory::view},
      {.name = "aten::masked_scatter_", .reads_across = true},
      {.name = "aten::masked_select", .sizes = ResultSizes::content},
      {.name = "aten::matmul", .reads_across = true},
      {.name = "aten::matrix_H", .memory = ResultMemory::view},
      {.name = "aten::meshgrid", .memory = ResultMemory::elements, .repeats_elements = true},
      {.name = "aten::mm", .reads_across = true},
      {.name = "aten::moveaxis", .memory = ResultMemory::view},
      {.name = "aten::movedim", .memory = ResultMemory::view},
      {.name = "aten::narrow",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .sizes = ResultSizes::number},
      {.name = "aten::native_dropout", .identity = Identity::not_training},
      {.name = "aten::new_full", .shape_only = 0},
      {.name = "aten::new_ones", .shape_only = 0},
      {.name = "aten::new_zeros", .shape_only = 0},
      {.name = "aten::nonzero", .sizes = ResultSizes::content},
      {.name = "aten::nonzero_numpy", .sizes = ResultSizes::content},
      {.name = "aten::numel", .shape_only = 0},
      {.name = "aten::numpy_T", .memory = ResultMemory::view},
      {.name = "aten::ones_like", .shape_only = 0},
      {.name = "aten::pad", .sizes = ResultSizes::number},
      {.name = "aten::permute", .memory = ResultMemory::view},
      {.name = "aten::positive", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::put_", .reads_across = true},
      {.name = "aten::ravel", .memory = ResultMemory::by_strides, .sizes = ResultSizes::same_count},
      {.name = "aten::real", .memory = ResultMemory::view},
      {.name = "aten::repeat", .sizes = ResultSizes::number},
      {.name = "aten::requires_grad_", .keeps_content = true},
      {.name = "aten::reshape",
       .identity = Identity::same_shape,
       .memory = ResultMemory::by_strides,
       .sizes = ResultSizes::same_count},
      {.name = "aten::reshape_as",
       .identity = Identity::same_shape,
       .memory = ResultMemory::by_strides,
       .shape_only = 1},
      {.name = "aten::resolve_conj", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::resolve_neg", .identity = Identity::always, .memory = ResultMemory::argument},
      {.name = "aten::rnn_relu", .recurrent = true},
      {.name = "aten::rnn_tanh", .recurrent = true},
      {.name = "aten::scatter_", .reads_across = true},
      {.name = "aten::scatter_add_", .reads_across = true},
      {.name = "aten::scatter_reduce_", .reads_across = true},
      {.name = "aten::select", .memory = ResultMemory::view},
      {.name = "aten::size", .shape_only = 0},
      {.name = "aten::slice",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .sizes = ResultSizes::number},
      {.name = "aten::split", .memory = ResultMemory::view, .parts = true},
      {.name = "aten::split_with_sizes", .memory = ResultMemory::view, .sizes = ResultSizes::number},
      {.name = "aten::squeeze", .memory = ResultMemory::view},
      {.name = "aten::swapaxes", .memory = ResultMemory::view},
      {.name = "aten::swapdims", .memory = ResultMemory::view},
      {.name = "aten::sym_size", .shape_only = 0},
      {.name = "aten::t", .memory = ResultMemory::view},
      {.name = "aten::tensor_split", .memory = ResultMemory::view, .sizes = ResultSizes::number},
      {.name = "aten::tile", .sizes = ResultSizes::number},
      {.name = "aten::to", .identity = Identity::same_dtype, .memory = ResultMemory::argument},
      {.name = "aten::transpose", .memory = ResultMemory::view},
      {.name = "aten::type_as", .identity = Identity::same_dtype, .memory = ResultMemory::argument, .shape_only = 1},
      {.name = "aten::unbind", .memory = ResultMemory::view, .parts = true},
      {.name = "aten::unflatten",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .sizes = ResultSizes::same_count},
      {.name = "aten::unfold", .memory = ResultMemory::view, .sizes = ResultSizes::number, .repeats_elements = true},
      {.name = "aten::unique_consecutive", .sizes = ResultSizes::content},
      {.name = "aten::unique_dim", .sizes = ResultSizes::content},
      {.name = "aten::unsafe_chunk", .memory = ResultMemory::view, .parts = true},
      {.name = "aten::unsafe_split", .memory = ResultMemory::view, .parts = true},
      {.name = "aten::unsafe_split_with_sizes", .memory = ResultMemory::view, .sizes = ResultSizes::number},
      {.name = "aten::unsqueeze", .memory = ResultMemory::view},
      {.name = "aten::view",
       .identity = Identity::same_shape,
       .memory = ResultMemory::view,
       .sizes = ResultSizes::same_count},
      {.name = "aten::view_as", .identity = Identity::same_shape, .memory = ResultMemory::view, .shape_only = 1},
      {.name = "aten::view_as_complex", .memory = ResultMemory::view},
      {.name = "aten::view_as_real", .memory = ResultMemory::view},
      {.name = "aten::vsplit", .memory = ResultMemory::view},
      {.name = "aten::zeros_like", .shape_only = 0},
      {.name = "prim::device", .asks_type = true},
      {.name = "prim::dtype", .asks_type = true},
      {.name = "prim::is_cpu", .asks_type = true},
      {.name = "prim::is_cuda", .asks_type = true},
      {.name = "prim::is_meta", .asks_type = true},
      {.name = "prim::is_mkldnn", .asks_type = true},
      {.name = "prim::is_mps", .asks_type = true},
      {.name = "prim::is_nested", .asks_type = true},
      {.name = "prim::is_quantized", .asks_type = true},
      {.name = "prim::is_sparse", .asks_type = true},
      {.name = "prim::is_xla", .asks_type = true},
      {.name = "prim::is_xpu", .asks_type = true},
      {.name = "prim::layout", .asks_type = true},
      {.name = "prim::requires_grad", .asks_type = true},
      {.name = "prim::type", .asks_type = true},
      {.name = "torchvision::nms", .sizes = ResultSizes::content},
  };
  return rows;
}

const OperatorFacts& facts_of(std::string_view target) {
  static const FlatMap<std::string_view, const OperatorFacts*> by_name = [] {
    FlatMap<std::string_view, const OperatorFacts*> index;
    for (const OperatorFacts& row : all_operator_facts()) index.emplace(row.name, &row);
    return index;
  }();
  static const OperatorFacts none;
  const auto row = by_name.find(target);
  return row == by_name.end() ? none : *row->second;
}

bool is_in_place_name(std::string_view name) {
  if (!name.ends_with("__")) return name.ends_with('_');
  const std::string_view operation = name.substr(std::min(name.find("__"), name.size()));
  return operation == "__iand__" || operation == "__ior__" || operation == "__ixor__" || operation == "__ilshift__" ||
         operation == "__irshift__";
}

std::string view_of_copy(std::string_view target) {
  constexpr std::string_view ending = "_copy";
  if (!target.ends_with(ending)) return {};
  const OperatorFacts& view = facts_of(target.substr(0, target.size() - ending.size()));
  return view.memory == ResultMemory::view ||
                 (view.memory == ResultMemory::argument && view.identity == Identity::always)
             ? std::string(view.name)
             : std::string();
}

}  // namespace whence
