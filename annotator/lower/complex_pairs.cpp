// z = view_as_complex(x); y = z * w; view_as_real(y)   ->   [a c - b d, a d + b c] of x = [a, b] and w = [c, d]
// Operators that only move elements stay, with axes renumbered so that pairs stay together; all others have a rule in
// complex_arithmetic.cpp or complex_spectra.cpp. An operator without a rule is refused by name. Complex inputs and
// outputs of the program become pairs too, as in PyTorch's exporter.
#include "annotator/lower/complex_pairs.h"

#include <algorithm>

#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"
#include "schema/result.h"

namespace whence::lower {

bool PairSteps::is_pair(const Argument& argument) const {
  const auto* value = argument.as<ValueRef>();
  return value != nullptr && pairs_.contains(value->id);
}

DType PairSteps::real_dtype() const { return program_.values[node_.outputs.front()].type.dtype; }

std::vector<Dim> PairSteps::result_dims() const {
  const auto& dims = program_.values[node_.outputs.front()].type.dims;
  if (!dims) refuse("the shape of a complex result is unknown");
  return *dims;
}

std::vector<Dim> PairSteps::part_dims() const {
  std::vector<Dim> dims = result_dims();
  if (result_is_pair()) dims.pop_back();
  return dims;
}

Argument PairSteps::part(const Argument& pair, std::int64_t index) {
  std::vector<Dim> dims = steps.dims(pair, 1);
  dims.pop_back();
  return steps.add("aten::select.int", {{"self", pair}, {"dim", {std::int64_t{-1}}}, {"index", {index}}},
                   steps.dtype(pair), std::move(dims));
}

Argument PairSteps::pair(const Argument& real, const Argument& imag) {
  std::vector<Dim> dims = steps.dims(real);
  dims.push_back(fixed(2));
  return steps.add("aten::stack", {{"tensors", {ArgumentList{real, imag}}}, {"dim", {std::int64_t{-1}}}},
                   steps.dtype(real), std::move(dims));
}

Argument PairSteps::in_result_dtype(const Argument& tensor) {
  if (!result_is_pair() || steps.dtype(tensor) == real_dtype()) return tensor;
  return steps.add("aten::_to_copy", {{"self", tensor}, {"dtype", {real_dtype()}}}, real_dtype(), steps.dims(tensor));
}

// Adds the imaginary part to a real tensor by padding its last axis with a 0.
Argument PairSteps::as_pair(const Argument& tensor) {
  const Argument real = in_result_dtype(tensor);
  if (is_pair(tensor)) return real;
  std::vector<Dim> dims = steps.dims(real);
  dims.push_back(fixed(1));
  const Argument parts =
      steps.add("aten::unsqueeze", {{"self", real}, {"dim", {std::int64_t{-1}}}}, steps.dtype(real), dims);
  dims.back() = fixed(2);
  const Argument pad_after = {ArgumentList{{std::int64_t{0}}, {std::int64_t{1}}}};
  return steps.add("aten::constant_pad_nd", {{"self", parts}, {"pad", pad_after}}, steps.dtype(real), std::move(dims));
}

Argument PairSteps::unary(std::string_view target, const Argument& x) {
  return steps.add(target, {{"self", x}}, steps.dtype(x), steps.dims(x));
}

Argument PairSteps::binary(std::string_view target, const Argument& a, const Argument& b) {
  std::vector<Dim> dims = steps.dims(a);
  if (b.as<ValueRef>() != nullptr) {
    std::vector<Dim> other = steps.dims(b);
    if (other.size() > dims.size()) std::swap(dims, other);
    for (std::size_t i = 1; i <= other.size(); ++i) {
      Dim& dim = dims[dims.size() - i];
      if (dim.is_static() && dim.size == 1) dim = other[other.size() - i];
    }
  }
  std::vector<NamedArgument> arguments{{"self", a}, {"other", b}};
  return steps.add(target, std::move(arguments), steps.dtype(a), std::move(dims));
}

Argument PairSteps::multiplied(const Argument& x, const Argument& y) {
  const Argument a = real(x), b = imag(x), c = real(y), d = imag(y);
  const auto times = [&](const Argument& l, const Argument& r) { return binary("aten::mul.Tensor", l, r); };
  return pair(binary("aten::sub.Tensor", times(a, c), times(b, d)),
              binary("aten::add.Tensor", times(a, d), times(b, c)));
}

namespace {

// ---- operators that only move elements --------------------------------------------------------------------------

enum class Moves { one_axis, axes, all_axes, shape, repeats, indices, range };

// The arguments of an operator that number axes or hold sizes, and how to adapt them.
struct Moving {
  Moves how;
  std::vector<std::string_view> arguments;
};

const std::unordered_map<std::string_view, Moving>& moving() {
  static const std::unordered_map<std::string_view, Moving> table{
      {"aten::_unsafe_view", {Moves::shape, {"size"}}},
      {"aten::cat", {Moves::one_axis, {"dim"}}},
      {"aten::chunk", {Moves::one_axis, {"dim"}}},
      {"aten::cumsum", {Moves::one_axis, {"dim"}}},
      {"aten::expand", {Moves::shape, {"size"}}},
      {"aten::flatten", {Moves::range, {"start_dim", "end_dim"}}},
      {"aten::flip", {Moves::axes, {"dims"}}},
      {"aten::index", {Moves::indices, {}}},
      {"aten::index_select", {Moves::one_axis, {"dim"}}},
      {"aten::mean", {Moves::axes, {"dim"}}},
      {"aten::movedim", {Moves::axes, {"source", "destination"}}},
      {"aten::narrow", {Moves::one_axis, {"dim"}}},
      {"aten::permute", {Moves::all_axes, {"dims"}}},
      {"aten::repeat", {Moves::repeats, {"repeats"}}},
      {"aten::reshape", {Moves::shape, {"shape"}}},
      {"aten::roll", {Moves::axes, {"dims"}}},
      {"aten::select", {Moves::one_axis, {"dim"}}},
      {"aten::size", {Moves::one_axis, {"dim"}}},
      {"aten::slice", {Moves::one_axis, {"dim"}}},
      {"aten::split", {Moves::one_axis, {"dim"}}},
      {"aten::split_with_sizes", {Moves::one_axis, {"dim"}}},
      {"aten::squeeze", {Moves::axes, {"dim"}}},
      {"aten::stack", {Moves::one_axis, {"dim"}}},
      {"aten::sum", {Moves::axes, {"dim"}}},
      {"aten::sym_size", {Moves::one_axis, {"dim"}}},
      {"aten::tile", {Moves::repeats, {"dims"}}},
      {"aten::transpose", {Moves::one_axis, {"dim0", "dim1"}}},
      {"aten::unbind", {Moves::one_axis, {"dim"}}},
      {"aten::unsqueeze", {Moves::one_axis, {"dim"}}},
      {"aten::view", {Moves::shape, {"size"}}},
      {"aten::alias", {Moves::indices, {}}},
      {"aten::clone", {Moves::indices, {}}},
      {"aten::contiguous", {Moves::indices, {}}},
      {"aten::detach", {Moves::indices, {}}},
      {"aten::empty_like", {Moves::indices, {}}},
      {"aten::lift_fresh_copy", {Moves::indices, {}}},
      {"aten::_neg_view", {Moves::indices, {}}},
      {"aten::nan_to_num", {Moves::indices, {}}},
      {"aten::neg", {Moves::indices, {}}},
      {"aten::resolve_conj", {Moves::indices, {}}},
      {"aten::resolve_neg", {Moves::indices, {}}},
      {"aten::view_as_complex", {Moves::indices, {}}},
      {"aten::view_as_real", {Moves::indices, {}}},
      {"aten::zeros_like", {Moves::indices, {}}},
  };
  return table;
}

// Shifts an axis counted from the end by one, because the pair axis comes last.
void shift_before_pair(const Program& program, Argument& axis) {
  if (const auto known = known_integer(program, axis); known && *known < 0) axis = {*known - 1};
}

// Lists all axes explicitly in a sum or mean over all axes.
void name_all_axes(Node& node, std::size_t rank) {
  if (node.target != "aten::sum" && node.target != "aten::mean") return;
  ArgumentList all;
  for (std::size_t axis = 0; axis < rank; ++axis) all.push_back({static_cast<std::int64_t>(axis)});
  const Argument* given = node.find("dim");
  const auto* list = given == nullptr ? nullptr : given->as<ArgumentList>();
  if (list != nullptr && !list->empty()) return;
  std::erase_if(node.arguments, [](const NamedArgument& argument) { return argument.name == "dim"; });
  node.arguments.push_back({"dim", {std::move(all)}});
  node.overload = node.target == "aten::sum" ? "dim_IntList" : "dim";
}

// Adapts the arguments to the added pair axis. Returns false if that is not possible.
bool move(const Program& program, const Moving& rule, Node& node, std::size_t rank) {
  for (const std::string_view name : rule.arguments) {
    const auto found = std::find_if(node.arguments.begin(), node.arguments.end(),
                                    [&](const NamedArgument& argument) { return argument.name == name; });
    auto* list = found == node.arguments.end() ? nullptr : std::get_if<ArgumentList>(&found->value.data);
    if (rule.how == Moves::axes && (node.target == "aten::flip" || node.target == "aten::roll") &&
        (list == nullptr || list->empty())) {
      return false;  // all axes would include the pair axis
    }
    if (found == node.arguments.end()) {
      if (node.target == "aten::size" || node.target == "aten::sym_size")
        return false;  // the result would be a list that includes the 2
      if (rule.how == Moves::range && name == "end_dim") node.arguments.push_back({"end_dim", {std::int64_t{-2}}});
      continue;
    }
    if (rule.how == Moves::shape || rule.how == Moves::repeats) {
      if (list == nullptr) return false;
      list->push_back({rule.how == Moves::shape ? std::int64_t{2} : std::int64_t{1}});
    } else if (list != nullptr) {
      for (Argument& axis : *list) shift_before_pair(program, axis);
      if (rule.how == Moves::all_axes) list->push_back({static_cast<std::int64_t>(rank)});
    } else {
      shift_before_pair(program, found->value);
    }
  }
  std::erase_if(node.arguments, [](const NamedArgument& argument) {
    const auto* dtype = argument.value.as<DType>();
    return argument.name == "dtype" && dtype != nullptr && is_complex(*dtype);
  });
  return true;
}

// ---- the pass ---------------------------------------------------------------------------------------------------

DType part_of(DType dtype) { return dtype == DType::complex128 ? DType::float64 : DType::float32; }

void retype(TensorData& data) {
  if (!is_complex(data.dtype)) return;
  data.dtype = part_of(data.dtype);
  data.shape.push_back(2);
}

class ComplexPairs {
 public:
  explicit ComplexPairs(Lowering& lowering) : program_(lowering.program), failures_(lowering.failures) {}

  void run() {
    collect();
    program::Replacements replaced;
    program::expand_nodes(program_, replaced,
                          [&](const Node& node, std::vector<Node>& to) { return open(node, to, replaced); });
  }

 private:
  // Collects the values of complex dtype and makes them real, inputs and outputs of the program included. There may be
  // none: see is_complex_node().
  void collect() {
    for (const ValueId id : program_.values.keys()) {
      const Type& type = program_.values[id].type;
      if (type.kind == ValueKind::tensor && is_complex(type.dtype)) pairs_.insert(id);
    }
    for (const ValueId id : pairs_) {
      Type& type = program_.values[id].type;
      type.dtype = part_of(type.dtype);
      if (type.dims) type.dims->push_back(fixed(2));
    }
    for (Parameter& parameter : program_.parameters) retype(parameter.data);
    for (Constant& constant : program_.constants) retype(constant.data);
  }

  void refuse(const std::string& why, const Node& node) {
    failures_.push_back(failure_of(&node, {Code::unsupported_feature,
                                           Severity::error,
                                           why + ", and ONNX operators do not support complex tensors",
                                           program::place_of(program_, node, "lower"),
                                           PairSteps::remedy,
                                           1,
                                           {}}));
  }

  bool touches(const Node& node) const {
    bool found = std::ranges::any_of(node.outputs, [&](ValueId id) { return pairs_.contains(id); });
    for (const NamedArgument& argument : node.arguments) {
      each_value(argument.value, [&](ValueId id) { found |= pairs_.contains(id); });
    }
    return found;
  }

  bool open(const Node& node, std::vector<Node>& to, program::Replacements& replaced) {
    const bool known =
        std::ranges::all_of(node.outputs, [&](ValueId id) { return program_.values[id].known != none_id; });
    if (known) return false;  // a constant, already retyped
    if (!touches(node) && !pair_spectra().contains(node.target)) return false;
    if (const auto rule = moving().find(node.target); rule != moving().end()) return moved(node, rule->second, to);
    const PairRules* rules = pair_arithmetic().contains(node.target) ? &pair_arithmetic() : &pair_spectra();
    const auto rule = rules->find(node.target);
    if (rule == rules->end()) {
      if (!node.blocks.empty()) return false;
      refuse(qualified(node) + " computes with complex numbers", node);
      return false;
    }
    PairSteps steps(program_, node, pairs_);
    try {
      const Argument result = rule->second(steps);
      for (Node& step : steps.steps.take()) to.push_back(std::move(step));
      if (const auto* value = result.as<ValueRef>(); value != nullptr && steps.result_is_pair())
        pairs_.insert(value->id);
      replaced.emplace(node.outputs.front(), result);
      return true;
    } catch (const Error& error) {
      add_failures(failures_, node, error);
      return false;
    }
  }

  bool moved(const Node& node, const Moving& rule, std::vector<Node>& to) {
    Node adapted = node;
    if (node.target == "aten::view_as_complex" || node.target == "aten::view_as_real") {
      adapted.target = "aten::alias";
      to.push_back(std::move(adapted));
      return true;
    }
    const auto& dims = program_.values[node.outputs.front()].type.dims;
    const Argument* self = node.find("self");
    const auto* value = self == nullptr ? nullptr : self->as<ValueRef>();
    if (value != nullptr && program_.values[value->id].type.dims) {
      const std::size_t rank = program_.values[value->id].type.dims->size();
      name_all_axes(adapted, rank - std::min<std::size_t>(rank, 1));
    }
    const bool one_axis = rule.how == Moves::one_axis;  // the axis refers to the operand, whatever the result is
    if ((!dims && !one_axis) || !move(program_, rule, adapted, dims && !dims->empty() ? dims->size() - 1 : 0)) {
      refuse(qualified(node) + " works on all axes of a complex tensor", node);
      return false;
    }
    to.push_back(std::move(adapted));
    return true;
  }

  Program& program_;
  Failures& failures_;
  std::unordered_set<ValueId> pairs_;
};

// Returns true for an operator that takes or returns complex tensors. A spectral operator counts even if its input and
// output are real (hfft of a real tensor).
bool is_complex_node(const Program& program, const Node& node) {
  return pair_spectra().contains(node.target) ||
         std::ranges::any_of(node.outputs, [&](ValueId id) { return is_complex(program.values[id].type.dtype); });
}

}  // namespace

void complex_as_pairs(Lowering& lowering) {
  const Program& program = lowering.program;
  const bool input = std::ranges::any_of(
      program.inputs, [&](const ProgramInput& each) { return is_complex(program.values[each.value].type.dtype); });
  const auto has_complex = [&](const Node& node) { return is_complex_node(program, node); };
  const bool constant = std::ranges::any_of(
      program.values, [](const Value& value) { return value.known == none_id && is_complex(value.type.dtype); });
  if (input || constant || program::any_node(program.body, has_complex)) ComplexPairs(lowering).run();
}

}  // namespace whence::lower
