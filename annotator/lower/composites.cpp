#include "annotator/lower/composites.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "annotator/convert/op_table.h"
#include "annotator/lower/in_place.h"
#include "annotator/lower/pipeline.h"
#include "schema/fit.h"
#include "schema/result.h"
#include "schema/size_steps.h"

namespace whence::lower {

namespace {

bool convertible(const std::string& key) {
  return convert::OpTable::get().find(key) != nullptr || has_functional_form(key);
}

bool same_content(const TensorData& a, const TensorData& b) {
  const auto left = a.bytes.in_memory(), right = b.bytes.in_memory();
  return a.dtype == b.dtype && a.shape == b.shape && left && right && as_text(*left) == as_text(*right);
}

// Decomposes one call.
class CallDecomposition {
 public:
  CallDecomposition(Program& program, const Node& composite, const TraceComposite& trace)
      : program_(program), composite_(composite), trace_(trace) {}

  // Returns false if the operator is not a composite; otherwise fills the nodes and results.
  bool run() {
    CompositeCall call;
    call.call.target = composite_.target;
    call.call.overload = composite_.overload;
    call.convertible = &convertible;
    call.call.arguments = composite_.arguments;
    for (NamedArgument& argument : call.call.arguments) number_inputs(argument.value);
    note_axes();
    Runs runs;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (run == 2 && axes_.empty()) {  // same sizes as run 1
        runs[2] = runs[1];
        break;
      }
      call.seed = run;
      call.inputs.clear();
      for (const ValueId input : inputs_) call.inputs.push_back(enlarged(program_.values[input].type, run));
      if (!trace(call, runs[run])) return false;
    }
    if (!axes_.empty()) check_smallest(std::move(call), runs);
    join(runs);
    return true;
  }

  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Argument>& results() const { return results_; }

 private:
  // The steps at the example's sizes and at two larger ones. Three runs, because in two a number may equal a size by
  // coincidence.
  using Runs = std::array<Program, 3>;

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

  // Replaces values with input numbers, and known numbers with constants.
  void number_inputs(Argument& argument) {
    if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
      for (Argument& element : *list) number_inputs(element);
      return;
    }
    const auto* value = argument.as<ValueRef>();
    if (value == nullptr) return;
    const Type& type = program_.values[value->id].type;
    if (type.kind != ValueKind::tensor) {
      const auto known = known_integer(program_, argument);
      if (!known) refuse(Code::converter_refused, "an argument is a number computed by the model");
      argument.data = *known;
      return;
    }
    const auto sized = [](const Dim& dim) { return dim.size >= 0; };
    if (!type.dims || !std::ranges::all_of(*type.dims, sized)) {
      refuse(Code::no_example_inputs, "the shape of an argument is unknown");
    }
    auto place = std::ranges::find(inputs_, value->id);
    if (place == inputs_.end()) place = inputs_.insert(inputs_.end(), value->id);
    argument.data = ValueRef{ValueId(place - inputs_.begin())};
  }

  std::int64_t least(const Dim& dim) const {
    const auto* symbol = dim.symbol == none_id ? nullptr : &program_.symbols[dim.symbol];
    return std::max<std::int64_t>(1, symbol == nullptr ? 1 : symbol->min.value_or(1));
  }

  // Returns true if `steps` is a subsequence of `nodes`: at small sizes PyTorch leaves out steps without effect.
  static bool leaves_out(const std::vector<Node>& nodes, const std::vector<Node>& steps) {
    std::size_t found = 0;
    for (const Node& node : nodes) found += found < steps.size() && qualified(steps[found]) == qualified(node) ? 1 : 0;
    return found == steps.size();
  }

  // Traces the operator again at the smallest dynamic sizes and requires the same steps. An operator with a fixed
  // length (irfft with n=7) slices longer axes and pads shorter ones. Sizes that PyTorch itself refuses are not
  // checked.
  void check_smallest(CompositeCall call, const Runs& runs) const {
    for (Type& type : call.inputs) {
      for (Dim& dim : *type.dims) dim.size = dim.dynamic ? least(dim) : dim.size;
    }
    Program steps;
    try {
      if (!trace(call, steps)) return;
    } catch (const Error&) {
      return;
    }
    const auto &nodes = runs[0].body.nodes, &larger = runs[1].body.nodes, &smallest = steps.body.nodes;
    if (larger.size() != nodes.size()) return;  // join() refuses this
    bool same = smallest.size() < nodes.size() ? leaves_out(nodes, smallest) : nodes.size() == smallest.size();
    for (std::size_t i = 0; same && i < nodes.size() && nodes.size() == smallest.size(); ++i) {
      same = qualified(nodes[i]) == qualified(smallest[i]) && nodes[i].arguments.size() == smallest[i].arguments.size();
      for (std::size_t k = 0; same && k < nodes[i].arguments.size() && k < larger[i].arguments.size(); ++k) {
        const Argument& value = nodes[i].arguments[k].value;
        same = value != larger[i].arguments[k].value || value == smallest[i].arguments[k].value;
      }
    }
    if (!same) refuse(Code::baked_size, "its decomposition is different at small dynamic sizes");
  }

  // Returns the size of a dim in a run. Equal symbols keep equal sizes; different symbols get different sizes, in
  // another ratio in each run. The parity changes in the third run, so that the rounding of halves shows.
  static std::int64_t size_in(std::size_t run, const Dim& dim) {
    const std::int64_t symbol = dim.symbol == none_id ? 0 : dim.symbol.number();
    if (!dim.dynamic || run == 0) return dim.size;
    return run == 1 ? 2 * dim.size + 1 + 2 * symbol : dim.size + 3 + 6 * symbol;
  }

  static Type enlarged(Type type, std::size_t run) {
    for (Dim& dim : *type.dims) dim.size = size_in(run, dim);
    return type;
  }

  struct Axis {
    ValueId value = none_id;
    std::int64_t axis = 0;
    SymbolId symbol = none_id;
  };
  using Sizes = std::array<std::int64_t, 3>;  // indexed by run

  void note_axes() {
    for (const ValueId value : inputs_) {
      const std::vector<Dim>& dims = *program_.values[value].type.dims;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (!dims[i].dynamic) continue;
        axes_.try_emplace(Sizes{size_in(0, dims[i]), size_in(1, dims[i]), size_in(2, dims[i])},
                          Axis{value, static_cast<std::int64_t>(i), dims[i].symbol});
      }
    }
  }

  Dim dim_of(const Sizes& sizes) const {
    if (sizes[0] == sizes[1] && sizes[0] == sizes[2]) return {sizes[0], false, none_id};
    const auto axis = axes_.find(sizes);
    return {sizes[0], true, axis == axes_.end() ? none_id : axis->second.symbol};
  }

  void require_same_steps(const Program& first, const Program& other) const {
    bool same = first.body.nodes.size() == other.body.nodes.size() && first.values.size() == other.values.size() &&
                first.outputs.size() == other.outputs.size();
    for (std::size_t i = 0; same && i < first.body.nodes.size(); ++i) {
      const Node &node = first.body.nodes[i], &again = other.body.nodes[i];
      same = qualified(node) == qualified(again) && node.outputs.size() == again.outputs.size() &&
             node.arguments.size() == again.arguments.size();
    }
    if (!same) refuse(Code::baked_size, "its decomposition changes with a dynamic size");
  }

  void join(const Runs& runs) {
    const Program& first = runs[0];
    for (const Program& other : runs) require_same_steps(first, other);
    to_ = inputs_;
    for (std::size_t i = inputs_.size(); i < first.values.size(); ++i) add_value(runs, ValueId(i));
    for (std::size_t i = 0; i < first.body.nodes.size(); ++i) {
      Node rewritten = first.body.nodes[i];
      rewritten.origin = composite_.origin;
      for (std::size_t k = 0; k < rewritten.arguments.size(); ++k) {
        const auto value = [&](std::size_t run) { return &runs[run].body.nodes[i].arguments[k].value; };
        rewritten.arguments[k].value = joined({value(0), value(1), value(2)});
      }
      for (ValueId& output : rewritten.outputs) output = to_.at(static_cast<std::size_t>(output.number()));
      nodes_.push_back(std::move(rewritten));
    }
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      results_.push_back(joined({&runs[0].outputs[i].value, &runs[1].outputs[i].value, &runs[2].outputs[i].value}));
    }
  }

  void add_value(const Runs& runs, ValueId step) {
    const Program& first = runs[0];
    Value value = first.values[step];
    const auto dims = [&](std::size_t run) -> const std::vector<Dim>& { return *runs[run].values[step].type.dims; };
    if (dims(0).size() != dims(1).size() || dims(0).size() != dims(2).size()) {
      refuse(Code::baked_size, "a rank depends on a size");
    }
    for (std::size_t k = 0; k < dims(0).size(); ++k) {
      (*value.type.dims)[k] = dim_of({dims(0)[k].size, dims(1)[k].size, dims(2)[k].size});
    }
    const auto id = ValueId(program_.values.size());
    value.name = composite_.target.substr(composite_.target.find("::") + 2) + ".step." + std::to_string(id.number());
    if (value.source == ValueSource::constant) {
      const Constant& constant = first.constants[ConstantId(value.index)];
      for (const Program& run : runs) {
        const auto other = ConstantId(run.values[step].index);
        if (other != none_id && same_content(constant.data, run.constants[other].data)) continue;
        refuse(Code::baked_size, "an intermediate tensor is a constant that changes with the size");
      }
      value.known = program_.constants.add(constant);
      value.index = value.known.number();
    }
    to_.push_back(id);
    program_.values.push_back(std::move(value));
  }

  // The same argument in each run.
  using Seen = std::array<const Argument*, 3>;

  Argument joined(const Seen& seen) {
    const auto all = [&](const auto& holds) { return std::ranges::all_of(seen, holds); };
    const auto* list = seen[0]->as<ArgumentList>();
    const auto is_as_long = [&](const Argument* each) {
      const auto* other = each->as<ArgumentList>();
      return other != nullptr && list != nullptr && other->size() == list->size();
    };
    if (all(is_as_long)) {
      ArgumentList result;
      for (std::size_t i = 0; i < list->size(); ++i) {
        const auto element = [&](std::size_t run) { return &(*seen[run]->as<ArgumentList>())[i]; };
        result.push_back(joined({element(0), element(1), element(2)}));
      }
      return {std::move(result)};
    }
    if (all([&](const Argument* each) { return *each == *seen[0]; })) {
      const auto* value = seen[0]->as<ValueRef>();
      return value == nullptr ? *seen[0] : Argument{ValueRef{to_.at(static_cast<std::size_t>(value->id.number()))}};
    }
    std::optional<Argument> found;
    if (all([](const Argument* each) { return each->as<std::int64_t>() != nullptr; })) {
      found = size_as_axes({*seen[0]->as<std::int64_t>(), *seen[1]->as<std::int64_t>(), *seen[2]->as<std::int64_t>()});
    }
    if (!found) {
      refuse(Code::baked_size, "a number in its decomposition depends on a dynamic size by an unknown formula");
    }
    return *found;
  }

  // Expresses a number that differs between the runs by the axes of the inputs.
  std::optional<Argument> size_as_axes(const Sizes& sizes) {
    constexpr std::int64_t max_divisor = 2;  // fftshift and its inverse
    std::vector<const Axis*> axes;
    std::vector<SeenSize> seen;
    for (const auto& [numbers, axis] : axes_) {
      seen.push_back({Size::symbol(SymbolId(axes.size())), {numbers.begin(), numbers.end()}});
      axes.push_back(&axis);
    }
    const auto size = fit_size({sizes.begin(), sizes.end()}, seen, max_divisor);
    if (!size) return std::nullopt;
    const SizeSteps<Argument> steps{[&](SymbolId id) {
                                      const Axis& axis = *axes[static_cast<std::size_t>(id.number())];
                                      return integer("aten::size",
                                                     {{"self", {ValueRef{axis.value}}}, {"dim", {axis.axis}}});
                                    },
                                    [](std::int64_t number) { return Argument{number}; },
                                    [&](const char* target, const Argument& x, const Argument& y) {
                                      return integer(target, {{"a", x}, {"b", y}});
                                    }};
    return steps.number(*size);
  }

  Argument integer(const char* target, std::vector<NamedArgument> arguments) {
    Node node;
    node.target = target;
    node.overload = "int";
    node.arguments = std::move(arguments);
    node.origin = composite_.origin;
    const auto id = ValueId(program_.values.size());
    Value value;
    value.name = "size.step." + std::to_string(id.number());
    value.type = {ValueKind::integer, DType::int64, std::nullopt};
    program_.values.push_back(std::move(value));
    node.outputs.push_back(id);
    nodes_.push_back(std::move(node));
    return {ValueRef{id}};
  }

  Program& program_;
  const Node& composite_;
  const TraceComposite& trace_;
  std::vector<ValueId> inputs_;  // by input number of the call
  std::map<Sizes, Axis> axes_;   // dynamic axes of the inputs
  std::vector<ValueId> to_;      // value of the traced steps -> value of the program
  std::vector<Node> nodes_;
  std::vector<Argument> results_;
};

// Appends the steps of one call to `to` and records the replacements of its results.
bool open(Program& program, const Node& node, Composites& composites, std::vector<Node>& to,
          program::Replacements& replaced) {
  if (composites.decomposed_by(program, node) == nullptr) return false;
  CallDecomposition opening(program, node, composites.trace);
  try {
    if (!opening.run() || opening.results().size() != node.outputs.size()) return false;
  } catch (const Error& error) {
    add_failures(composites.refused, node, error);
    return false;
  }
  std::ranges::move(opening.nodes(), std::back_inserter(to));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) replaced.emplace(node.outputs[i], opening.results()[i]);
  return true;
}

}  // namespace

const std::string* Composites::decomposed_by(const Program& program, const Node& node) const {
  const auto find = [&](const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? nullptr : &*found;
  };
  if (keys.empty()) return nullptr;
  if (const std::string* key = find(qualified(node)); key != nullptr || !is_in_place(node)) return key;
  const Argument& written = written_argument(node);
  if (written.as<ValueRef>() == nullptr && written.as<ArgumentList>() == nullptr) return nullptr;
  const std::optional<Node> functional = functional_form(program, node).node;
  return functional ? find(qualified(*functional)) : nullptr;
}

void decompose_composites(Lowering& lowering) {
  if (lowering.composites == nullptr || lowering.composites->keys.empty()) return;
  program::Replacements replaced;
  program::expand_nodes(lowering.program, replaced, [&](const Node& node, std::vector<Node>& to) {
    return open(lowering.program, node, *lowering.composites, to, replaced);
  });
}

}  // namespace whence::lower
