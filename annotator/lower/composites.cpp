#include "annotator/lower/composites.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "annotator/convert/op_table.h"
#include "annotator/lower/in_place.h"
#include "schema/result.h"

namespace whence::lower {

namespace {

bool convertible(const std::string& key) {
  return convert::OpTable::get().find(key) != nullptr || has_functional_form(key);
}

bool same_content(const TensorData& a, const TensorData& b) {
  const auto left = a.bytes.in_memory(), right = b.bytes.in_memory();
  return a.dtype == b.dtype && a.shape == b.shape && left && right && as_text(*left) == as_text(*right);
}

// One call, opened.
class Opening {
 public:
  Opening(Program& program, const Node& composite, const TraceComposite& trace)
      : program_(program), composite_(composite), trace_(trace) {}

  // False when the operator is not a composite; else nodes and results are there.
  bool run() {
    CompositeCall call;
    call.call.target = composite_.target;
    call.call.overload = composite_.overload;
    call.convertible = &convertible;
    call.call.arguments = composite_.arguments;
    for (NamedArgument& argument : call.call.arguments) number_inputs(argument.value);
    for (const ValueId input : inputs_) call.inputs.push_back(program_.values[input].type);
    Program first, second;
    if (!trace(call, first)) return false;
    call.seed = 1;
    for (Type& type : call.inputs) enlarge(type);
    if (!trace(call, second)) return false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) note_axes(i, call.inputs[i]);
    if (!axes_.empty()) check_smallest(std::move(call), first, second);
    join(first, second);
    return true;
  }

  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Argument>& results() const { return results_; }

 private:
  [[noreturn]] void refuse(Code code, const std::string& why,
                           const std::string& remedy = "write the model without this operator") const {
    const bool archive = code == Code::converter_refused && program_.source.kind == "torch.export";
    throw Error(code, qualified(composite_) + " has no converter and cannot be written as other operators: " + why,
                (archive ? "archive the program after run_decompositions(), or " : "") + remedy,
                program::place_of(program_, composite_, "decompose"));
  }

  bool trace(const CompositeCall& call, Program& steps) const {
    Diagnostics diagnostics;
    bool is_filled = false;
    try {
      is_filled = trace_(call, steps, diagnostics);
    } catch (const Error& error) {
      diagnostics = error.diagnostics();
    }
    if (diagnostics.empty()) return is_filled;
    const Diagnostic& why = diagnostics.front();
    refuse(why.code, why.message, why.remedy);
  }

  // Values become numbers of inputs, and known numbers themselves.
  void number_inputs(Argument& argument) {
    if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
      for (Argument& element : *list) number_inputs(element);
      return;
    }
    const auto* value = argument.as<ValueRef>();
    if (value == nullptr) return;
    const Type& type = program_.values[value->id].type;
    if (type.kind != ValueKind::tensor) {
      const auto known = program::known_integer(program_, argument);
      if (!known) refuse(Code::converter_refused, "an argument is a number that the model computes");
      argument.data = *known;
      return;
    }
    const auto sized = [](const Dim& dim) { return dim.size >= 0; };
    if (!type.dims || !std::ranges::all_of(*type.dims, sized)) {
      refuse(Code::no_example_inputs, "the shape of an argument is unknown");
    }
    auto place = std::ranges::find(inputs_, value->id);
    if (place == inputs_.end()) place = inputs_.insert(inputs_.end(), value->id);
    argument.data = ValueRef{static_cast<ValueId>(place - inputs_.begin())};
  }

  std::int64_t least(const Dim& dim) const {
    const auto* symbol = dim.symbol == none_id ? nullptr : &program_.symbols[static_cast<std::size_t>(dim.symbol)];
    return std::max<std::int64_t>(1, symbol == nullptr ? 1 : symbol->min.value_or(1));
  }

  // A length that the operator names (irfft with n=7) is cut to where there is more, and filled up to where there is
  // less: the steps have to be the same where dynamic sizes are the smallest, unless PyTorch takes none of these.
  void check_smallest(CompositeCall call, const Program& first, const Program& second) const {
    for (Type& type : call.inputs) {
      for (Dim& dim : *type.dims) dim.size = dim.dynamic ? least(dim) : dim.size;
    }
    Program steps;
    try {
      if (!trace(call, steps)) return;
    } catch (const Error&) {
      return;
    }
    const auto &nodes = first.body.nodes, &larger = second.body.nodes, &smallest = steps.body.nodes;
    bool same = nodes.size() == smallest.size() && nodes.size() == larger.size();
    for (std::size_t i = 0; same && i < nodes.size(); ++i) {
      same = qualified(nodes[i]) == qualified(smallest[i]) && nodes[i].arguments.size() == smallest[i].arguments.size();
      for (std::size_t k = 0; same && k < nodes[i].arguments.size() && k < larger[i].arguments.size(); ++k) {
        const Argument& value = nodes[i].arguments[k].value;
        same = value != larger[i].arguments[k].value || value == smallest[i].arguments[k].value;
      }
    }
    if (!same) refuse(Code::baked_size, "it takes other steps where a dynamic size is small");
  }

  // Equal sizes stay equal; sizes of different names become different.
  static void enlarge(Type& type) {
    for (Dim& dim : *type.dims) {
      if (dim.dynamic) dim.size = 2 * dim.size + 1 + 2 * (dim.symbol == none_id ? 0 : dim.symbol);
    }
  }

  struct Axis {
    ValueId value = none_id;
    std::int64_t axis = 0;
    SymbolId symbol = none_id;
  };
  using Sizes = std::pair<std::int64_t, std::int64_t>;  // in the two runs

  void note_axes(std::size_t input, const Type& enlarged) {
    const std::vector<Dim>& dims = *program_.values[inputs_[input]].type.dims;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (!dims[i].dynamic) continue;
      axes_.try_emplace(Sizes{dims[i].size, (*enlarged.dims)[i].size},
                        Axis{inputs_[input], static_cast<std::int64_t>(i), dims[i].symbol});
    }
  }

  Dim dim_of(const Dim& first, const Dim& second) const {
    if (first.size == second.size) return {first.size, false, none_id};
    const auto axis = axes_.find({first.size, second.size});
    return {first.size, true, axis == axes_.end() ? none_id : axis->second.symbol};
  }

  void join(const Program& first, const Program& second) {
    if (first.body.nodes.size() != second.body.nodes.size() || first.values.size() != second.values.size() ||
        first.outputs.size() != second.outputs.size()) {
      refuse(Code::baked_size, "it takes other steps at another size");
    }
    to_ = inputs_;
    for (std::size_t i = inputs_.size(); i < first.values.size(); ++i) add_value(first, second, i);
    for (std::size_t i = 0; i < first.body.nodes.size(); ++i) {
      const Node &node = first.body.nodes[i], &again = second.body.nodes[i];
      if (qualified(node) != qualified(again) || node.outputs.size() != again.outputs.size() ||
          node.arguments.size() != again.arguments.size()) {
        refuse(Code::baked_size, "it takes other steps at another size");
      }
      Node rewritten = node;
      rewritten.origin = composite_.origin;
      for (std::size_t k = 0; k < rewritten.arguments.size(); ++k) {
        rewritten.arguments[k].value = joined(node.arguments[k].value, again.arguments[k].value);
      }
      for (ValueId& output : rewritten.outputs) output = to_.at(static_cast<std::size_t>(output));
      nodes_.push_back(std::move(rewritten));
    }
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      results_.push_back(joined(first.outputs[i].value, second.outputs[i].value));
    }
  }

  void add_value(const Program& first, const Program& second, std::size_t i) {
    Value value = first.values[i];
    const Type& again = second.values[i].type;
    if (value.type.dims->size() != again.dims->size()) refuse(Code::baked_size, "a rank depends on a size");
    for (std::size_t k = 0; k < again.dims->size(); ++k) {
      (*value.type.dims)[k] = dim_of((*value.type.dims)[k], (*again.dims)[k]);
    }
    const auto id = static_cast<ValueId>(program_.values.size());
    value.name = composite_.target.substr(composite_.target.find("::") + 2) + ".step." + std::to_string(id);
    if (value.source == ValueSource::constant) {
      const Constant& constant = first.constants.at(static_cast<std::size_t>(value.index));
      const ConstantId other = second.values[i].index;
      if (other == none_id || !same_content(constant.data, second.constants.at(static_cast<std::size_t>(other)).data)) {
        refuse(Code::baked_size, "a tensor on the way is made by something else than an operator");
      }
      value.index = value.known = static_cast<ConstantId>(program_.constants.size());
      program_.constants.push_back(constant);
    }
    to_.push_back(id);
    program_.values.push_back(std::move(value));
  }

  Argument joined(const Argument& first, const Argument& second) {
    const auto *list = first.as<ArgumentList>(), *other = second.as<ArgumentList>();
    if (list != nullptr && other != nullptr && list->size() == other->size()) {
      ArgumentList result;
      for (std::size_t i = 0; i < list->size(); ++i) result.push_back(joined((*list)[i], (*other)[i]));
      return {std::move(result)};
    }
    if (first == second) {
      const auto* value = first.as<ValueRef>();
      return value == nullptr ? first : Argument{ValueRef{to_.at(static_cast<std::size_t>(value->id))}};
    }
    const auto *size = first.as<std::int64_t>(), *larger = second.as<std::int64_t>();
    const auto computed = size == nullptr || larger == nullptr ? std::nullopt : size_as_axes({*size, *larger});
    if (!computed) {
      refuse(Code::baked_size, "a number in its steps depends on a dynamic size, in a way that is not known");
    }
    return *computed;
  }

  // A number that was this in the two runs: n, n + k, n * k or n * m of axes n and m.
  std::optional<Argument> size_as_axes(const Sizes& sizes) {
    if (const auto axis = axes_.find(sizes); axis != axes_.end()) return size_of_axis(axis->second);
    for (const auto& [n, axis] : axes_) {
      if (sizes.second - sizes.first == n.second - n.first) {
        return computed("aten::add", size_of_axis(axis), {sizes.first - n.first});
      }
    }
    for (const auto& [n, axis] : axes_) {
      if (n.first == 0 || sizes.first % n.first != 0) continue;
      const std::int64_t factor = sizes.first / n.first;
      if (n.second * factor == sizes.second) return computed("aten::mul", size_of_axis(axis), {factor});
    }
    for (const auto& [n, axis] : axes_) {
      for (const auto& [m, other] : axes_) {
        if (sizes == Sizes{n.first * m.first, n.second * m.second}) {
          return computed("aten::mul", size_of_axis(axis), size_of_axis(other));
        }
      }
    }
    return std::nullopt;
  }

  Argument size_of_axis(const Axis& axis) {
    return integer("aten::size", {{"self", {ValueRef{axis.value}}}, {"dim", {axis.axis}}});
  }

  Argument computed(const char* target, Argument a, Argument b) {
    return integer(target, {{"a", std::move(a)}, {"b", std::move(b)}});
  }

  Argument integer(const char* target, std::vector<NamedArgument> arguments) {
    Node node;
    node.target = target;
    node.overload = "int";
    node.arguments = std::move(arguments);
    node.origin = composite_.origin;
    const auto id = static_cast<ValueId>(program_.values.size());
    Value value;
    value.name = "size.step." + std::to_string(id);
    value.type = {ValueKind::integer, DType::int64, std::nullopt};
    program_.values.push_back(std::move(value));
    node.outputs.push_back(id);
    nodes_.push_back(std::move(node));
    return {ValueRef{id}};
  }

  Program& program_;
  const Node& composite_;
  const TraceComposite& trace_;
  std::vector<ValueId> inputs_;  // by number in the call
  std::map<Sizes, Axis> axes_;   // dynamic axes of the inputs
  std::vector<ValueId> to_;      // value of the steps -> ours
  std::vector<Node> nodes_;
  std::vector<Argument> results_;
};

class Expansion {
 public:
  Expansion(Lowering& lowering, const std::set<std::string>& keys, const TraceComposite& trace)
      : program_(lowering.program), failures_(lowering.failures), keys_(keys), trace_(trace) {}

  void run() {
    program::open_nodes(program_, replaced_, [&](const Node& node, std::vector<Node>& to) {
      return keys_.contains(qualified(node)) && open(node, to);
    });
  }

 private:
  bool open(const Node& node, std::vector<Node>& to) {
    Opening opening(program_, node, trace_);
    try {
      if (!opening.run() || opening.results().size() != node.outputs.size()) return false;
    } catch (const Error& error) {
      failures_.insert(failures_.end(), error.diagnostics().begin(), error.diagnostics().end());
      return false;
    }
    std::ranges::move(opening.nodes(), std::back_inserter(to));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) replaced_.emplace(node.outputs[i], opening.results()[i]);
    return true;
  }

  Program& program_;
  Diagnostics& failures_;
  const std::set<std::string>& keys_;
  const TraceComposite& trace_;
  program::Replacements replaced_;
};

}  // namespace

void expand_composites(Lowering& lowering, const std::set<std::string>& keys, const TraceComposite& trace) {
  Expansion(lowering, keys, trace).run();
}

}  // namespace whence::lower
