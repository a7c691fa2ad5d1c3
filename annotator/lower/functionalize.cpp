// add_(x, 1); y = f(x)               ->   x1 = add(x, 1); y = f(x1)
// v = x[0]; v.copy_(s); y = f(x)     ->   x1 = select_scatter(x, s, 0, 0); y = f(x1)
//
// Writes become values. Each tensor that is not a view owns its memory and counts the writes to it; a view knows what
// it is a view of. A write gives the written tensor a new value and, going up, everything it is a view of; other views
// of the same memory are stale from then on and are made anew from their base when they are next read.
//
// if c: x.add_(1)                    ->   x1 = if c: add(x, 1) else: x
// loop: x[i].copy_(s)                ->   x1 = loop (x' = x): select_scatter(x', s, 0, i)
//
// Memory from outside that a branch or loop body writes to is a further result of it, which a loop carries from
// iteration to iteration.
//
// A write to a parameter or buffer is followed within the run and told, for an ONNX file starts each run anew.
//
// What cannot be expressed is reported only if it matters, that is, when a stale value is read: models often write
// through reshape(), of which nobody knows whether it copied, and never look at the base again.
#include <algorithm>
#include <utility>
#include <vector>

#include "annotator/lower/in_place.h"
#include "annotator/lower/outer_writes.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "annotator/lower/views.h"

namespace whence {
namespace {

class Functionalizer {
 public:
  explicit Functionalizer(Lowering& lowering)
      : program_(lowering.program), failures_(lowering.failures), notes_(lowering.notes) {}

  void run() {
    run(program_.body, 0);
    sink_ = &program_.body.nodes;  // what an output needs to be made anew stands at the end
    for (ProgramOutput& output : program_.outputs) resolve(output.value);
  }

 private:
  struct View {
    ValueId base = none_id;
    ViewKind kind = ViewKind::same;
    Node node;               // the view operation, its arguments resolved; unused for ViewKind::same
    std::size_t output = 0;  // which of its results
    std::string argument;    // the one that is viewed
  };
  // What an original value is called now, and how many writes to its memory that takes account of.
  struct Version {
    ValueId value = none_id;
    int writes = 0;
  };
  // Everything that control flow must be able to wind back.
  struct State {
    std::unordered_map<ValueId, View> views;
    std::unordered_map<ValueId, Version> versions;
    std::unordered_map<ValueId, int> writes;       // by owner of the memory
    std::unordered_map<ValueId, Diagnostic> lost;  // by owner: why its newest value cannot be expressed
    std::unordered_map<ValueId, ValueId> renamed;  // unsqueeze_(x): x means another view from there on
  };

  void run(Block& block, int depth) {
    std::vector<Node>* enclosing = sink_;
    std::vector<Node> nodes = std::move(block.nodes);
    block.nodes.clear();
    block.nodes.reserve(nodes.size());
    sink_ = &block.nodes;
    depth_ = depth;
    for (const ValueId input : block.inputs) depth_of_[input] = depth;
    for (Node& node : nodes) {
      for (const ValueId output : node.outputs) depth_of_[output] = depth;
      step(std::move(node));
    }
    for (Argument& output : block.outputs) resolve(output);
    sink_ = enclosing;
    depth_ = depth - 1;
  }

  void step(Node node) {
    if (is_in_place(node)) return writes_list(node) ? write_list(node) : write(node);
    if (only_writes(node)) {
      report(refusal(node, "it returns nothing, so all that it does is to write to what it is given"));
    }
    if (node.target == "prim::If") return branch(std::move(node));
    if (node.target == "prim::Loop") return loop(std::move(node));
    const ViewInfo view = view_info(program_, node);
    ValueId base = none_id;
    if (view.kind != ViewKind::none) base = renamed(node.find(view.argument)->as<ValueRef>()->id);
    for (NamedArgument& argument : node.arguments) resolve(argument.value);
    if (view.kind != ViewKind::none) {
      const int writes = writes_to(owner(base));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        state_.views[node.outputs[i]] = {base, view.kind, node, i, view.argument};
        state_.versions[node.outputs[i]] = {node.outputs[i], writes};
      }
    }
    sink_->push_back(std::move(node));
  }

  // ---- control flow -------------------------------------------------------------------------------------------

  // What happens in a block is seen outside only through its results; views that it makes anew stay inside.

  void branch(Node node) {
    const OuterWrites writes = outer_writes(program_, node);
    const std::vector<ValueId> written = owners(writes.written);
    for (NamedArgument& argument : node.arguments) resolve(argument.value);
    const State before = state_;
    std::unordered_map<ValueId, Diagnostic> lost;
    std::vector<std::vector<ValueId>> left;  // by side: the written memory
    for (Block& side : node.blocks) {
      run(side, depth_ + 1);
      left.push_back(newest(written, lost));
      state_ = before;
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (const auto why = lost.find(written[i]); why != lost.end()) {
        lose(written[i], why->second);
        continue;
      }
      for (std::size_t side = 0; side < 2; ++side) node.blocks[side].outputs.push_back({ValueRef{left[side][i]}});
      add_result(node, node.outputs.size(), written[i]);
    }
    for (auto kept = writes.kept.rbegin(); kept != writes.kept.rend(); ++kept) {
      alias(node.outputs[kept->position], renamed(kept->tensor));
      for (Block& side : node.blocks) erase(side.outputs, kept->position);
      erase(node.outputs, kept->position);
    }
    sink_->push_back(std::move(node));
  }

  void loop(Node node) {
    const OuterWrites writes = outer_writes(program_, node);
    const std::vector<ValueId> written = owners(writes.written), changing = first_written(node, writes);
    const Diagnostic unclear =
        refusal(node, "the loop writes to what a variable is before it, which is read later, and gives it another one");
    std::vector<std::pair<ValueId, ValueId>> aliases = kept_variables(node, writes);
    Block& body = node.blocks[0];
    ArgumentList& initial = std::get<ArgumentList>(node.arguments.back().value.data);
    const std::size_t variables = initial.size();
    for (NamedArgument& argument : node.arguments) resolve(argument.value);
    for (const ValueId memory : written) initial.push_back({ValueRef{current(memory)}});

    const State before = state_;
    std::vector<ValueId> carried;
    for (const ValueId memory : written) {
      carried.push_back(fresh_like(memory));
      program_.values[carried.back()].source = ValueSource::block_input;
      state_.versions[memory] = {carried.back(), ++state_.writes[memory]};
      if (std::find(changing.begin(), changing.end(), memory) != changing.end()) report(unclear);
    }
    insert(body.inputs, 1 + variables, carried);
    const auto name_variables = [&] {
      for (const auto& [value, tensor] : aliases) alias(value, tensor);
      for (const ValueId memory : changing) lose(memory, unclear);
    };
    name_variables();
    run(body, depth_ + 1);
    std::unordered_map<ValueId, Diagnostic> lost;
    const std::vector<ValueId> left = newest(written, lost);
    state_ = before;
    name_variables();
    for (std::size_t i = 0; i < written.size(); ++i) {
      insert(body.outputs, 1 + variables + i, {Argument{ValueRef{left[i]}}});
      add_result(node, variables + i, written[i]);
      const auto why = lost.find(written[i]);
      if (why == lost.end()) continue;
      if (is_read(body, carried[i])) report(why->second);  // by the next iteration
      lose(written[i], why->second);
    }
    sink_->push_back(std::move(node));
  }

  // What the first iteration writes to, and later ones may not.
  std::vector<ValueId> first_written(const Node& loop, const OuterWrites& writes) const {
    const auto& initial = *loop.arguments.back().value.as<ArgumentList>();
    std::vector<ValueId> memory;
    for (const std::size_t position : writes.changing) {
      if (const auto* value = initial[position].as<ValueRef>()) memory.push_back(owner(renamed(value->id)));
    }
    return memory;
  }

  // Takes variables that are one tensor all along off the loop. What stood for them, inside and after it, with that
  // tensor.
  std::vector<std::pair<ValueId, ValueId>> kept_variables(Node& loop, const OuterWrites& writes) {
    std::vector<std::pair<ValueId, ValueId>> aliases;
    Block& body = loop.blocks[0];
    for (auto kept = writes.kept.rbegin(); kept != writes.kept.rend(); ++kept) {
      const std::size_t at = kept->position;
      for (const ValueId value : {body.inputs[at + 1], loop.outputs[at]}) {
        aliases.emplace_back(value, renamed(kept->tensor));
      }
      erase(body.inputs, at + 1);
      erase(body.outputs, at + 1);
      erase(loop.outputs, at);
      erase(std::get<ArgumentList>(loop.arguments.back().value.data), at);
    }
    return aliases;
  }

  template <class T>
  static void erase(std::vector<T>& list, std::size_t at) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  }

  template <class T>
  static void insert(std::vector<T>& list, std::size_t at, const std::vector<T>& more) {
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
  }

  // The memory of values from outside the block at hand, each once.
  std::vector<ValueId> owners(const std::vector<ValueId>& values) const {
    std::vector<ValueId> memory;
    for (const ValueId value : values) {
      const ValueId own = owner(renamed(value));
      if (std::find(memory.begin(), memory.end(), own) == memory.end()) memory.push_back(own);
    }
    return memory;
  }

  std::vector<ValueId> newest(const std::vector<ValueId>& memory, std::unordered_map<ValueId, Diagnostic>& lost) {
    std::vector<ValueId> values;
    for (const ValueId each : memory) {
      const auto why = state_.lost.find(each);
      if (why != state_.lost.end()) lost.insert(*why);
      const auto version = state_.versions.find(each);
      values.push_back(version == state_.versions.end() ? each : version->second.value);
    }
    return values;
  }

  // A further result of a node: what it leaves in the memory.
  void add_result(Node& node, std::size_t position, ValueId memory) {
    const ValueId result = fresh_like(memory);
    insert(node.outputs, position, {result});
    state_.versions[memory] = {result, ++state_.writes[memory]};
    state_.lost.erase(memory);
  }

  void lose(ValueId memory, const Diagnostic& why) {
    ++state_.writes[memory];
    state_.versions.erase(memory);
    state_.lost.insert_or_assign(memory, why);
  }

  static bool is_read(const Block& block, ValueId id) {
    bool found = false;
    const auto look = [&](ValueId read) { found |= read == id; };
    return any_node(block, [&](const Node& node) {
      for (const NamedArgument& argument : node.arguments) for_each_value(argument.value, look);
      for (const Block& nested : node.blocks) {
        for (const Argument& output : nested.outputs) for_each_value(output, look);
      }
      return found;
    });
  }

  // ---- reading ------------------------------------------------------------------------------------------------

  void resolve(Argument& argument) {
    if (auto* list = std::get_if<ArgumentList>(&argument.data)) {
      for (Argument& element : *list) resolve(element);
    } else if (auto* reference = std::get_if<ValueRef>(&argument.data)) {
      reference->id = current(renamed(reference->id));
    }
  }

  ValueId renamed(ValueId id) const {
    for (auto next = state_.renamed.find(id); next != state_.renamed.end(); next = state_.renamed.find(id)) {
      id = next->second;
    }
    return id;
  }

  ValueId owner(ValueId id) const {
    for (auto view = state_.views.find(id); view != state_.views.end(); view = state_.views.find(id)) {
      id = view->second.base;
    }
    return id;
  }

  int writes_to(ValueId memory) const {
    const auto count = state_.writes.find(memory);
    return count == state_.writes.end() ? 0 : count->second;
  }

  // The newest value of `id`; views that a write has passed by are made anew.
  ValueId current(ValueId id) {
    const auto view = state_.views.find(id);
    const ValueId memory = owner(id);
    const int writes = writes_to(memory);
    const auto version = state_.versions.find(id);
    if (version != state_.versions.end() && version->second.writes == writes) return version->second.value;
    if (view == state_.views.end() && writes == 0) return id;
    if (view != state_.views.end() && view->second.kind == ViewKind::same) return current(view->second.base);
    if (const auto lost = state_.lost.find(memory); lost != state_.lost.end()) {
      report(lost->second);
      return version == state_.versions.end() ? id : version->second.value;
    }
    const View& stale = view->second;
    if (stale.kind == ViewKind::perhaps) {
      report(refusal(stale.node,
                     "what it was made from is written to later, and whether it shares that memory depends "
                     "on strides, which are not recorded"));
      return id;
    }
    Node renewed = stale.node;
    const std::size_t output = stale.output;
    const std::string argument = stale.argument;
    const ValueId base = current(stale.base);
    for (NamedArgument& given : renewed.arguments) {
      if (given.name == argument) given.value = Argument{ValueRef{base}};
    }
    for (ValueId& result : renewed.outputs) result = fresh_like(result);
    const ValueId value = renewed.outputs[output];
    sink_->push_back(std::move(renewed));
    state_.versions[id] = {value, writes};
    return value;
  }

  // ---- writing ------------------------------------------------------------------------------------------------

  void write(Node& node) {
    const Argument& target = written_argument(node);
    if (target.as<ValueRef>() == nullptr) return;  // a literal: nothing can see the write
    const ValueId self = renamed(target.as<ValueRef>()->id);
    tell_of_state(node, owner(self));
    const ValueId result = node.outputs.empty() ? none_id : node.outputs.front();
    if (node.target == "aten::set_" && node.overload == "source_Tensor") return stand_for(node, self, result);
    for (NamedArgument& argument : node.arguments) resolve(argument.value);
    Written written = functional_form(program_, node);
    if (written.node) {
      const bool typed = result != none_id && program_.values[result].type.dtype != DType::undefined;
      const ValueId renewed = fresh_like(typed ? result : self);
      if (result != none_id) program_.values[renewed].known = program_.values[result].known;
      written.node->outputs = {renewed};
      const ViewKind kind = view_info(program_, *written.node).kind;
      // dropout_(x) does nothing outside training. unsqueeze_(x) moves no data: from here on the name stands for a view
      // of what it was.
      if (kind == ViewKind::same) return alias(result, self);
      if (kind == ViewKind::view) {
        stay_inside(node, self);
        return rename(self, result, std::move(*written.node));
      }
      written.as_is = renewed;
      sink_->push_back(std::move(*written.node));
    }
    alias(result, self);
    if (node.target != "aten::detach_" && node.target != "aten::requires_grad_") put(self, written.as_is);
  }

  static bool writes_list(const Node& node) { return written_argument(node).as<ArgumentList>() != nullptr; }

  // _foreach_add_([x, y], 1)   ->   x1, y1 = _foreach_add([x, y], 1)
  void write_list(Node& node) {
    if (depth_ > 0) return report(refusal(node, "a branch or loop body writes to a list of tensors"));
    std::vector<ValueId> written;
    for (const Argument& element : *written_argument(node).as<ArgumentList>()) {
      const auto* value = element.as<ValueRef>();
      if (value == nullptr) continue;
      written.push_back(renamed(value->id));
      tell_of_state(node, owner(written.back()));
    }
    for (NamedArgument& argument : node.arguments) resolve(argument.value);
    Node functional = std::move(*functional_form(program_, node).node);
    functional.list_output = true;
    for (const ValueId value : written) functional.outputs.push_back(fresh_like(value));
    const std::vector<ValueId> results = functional.outputs;
    sink_->push_back(std::move(functional));
    for (std::size_t i = 0; i < written.size(); ++i) put(written[i], results[i]);
    for (std::size_t i = 0; i < node.outputs.size() && i < written.size(); ++i) alias(node.outputs[i], written[i]);
  }

  // x.set_(y): from here on x is another name of y.
  void stand_for(const Node& node, ValueId self, ValueId result) {
    stay_inside(node, self);
    const ValueId source = renamed(node.find("source")->as<ValueRef>()->id);
    if (source != self) state_.renamed[self] = source;
    if (result != none_id && result != source) state_.renamed[result] = source;
  }

  // What a name stands for is not handed out of a branch or loop body.
  void stay_inside(const Node& node, ValueId self) {
    const auto depth = depth_of_.find(self);
    if (depth_ > (depth == depth_of_.end() ? 0 : depth->second)) {
      report(refusal(node, "a branch or loop body gives a tensor from outside of it another shape"));
    }
  }

  void alias(ValueId result, ValueId self) {
    if (result != none_id) state_.views[result] = {self, ViewKind::same, {}, 0, ""};
  }

  void rename(ValueId self, ValueId result, Node view) {
    const ValueId renewed = view.outputs.front();
    state_.views[renewed] = {self, ViewKind::view, view, 0, "self"};
    state_.versions[renewed] = {renewed, writes_to(owner(self))};
    state_.renamed[self] = renewed;
    if (result != none_id) state_.renamed[result] = renewed;
    sink_->push_back(std::move(view));
  }

  // Gives `self` the value `written`, and with it all that `self` is a view of.
  void put(ValueId self, ValueId written) {
    const ValueId memory = owner(self);
    std::vector<std::pair<ValueId, ValueId>> renewed{{self, written}};
    ValueId value = written;
    for (auto view = state_.views.find(self); view != state_.views.end(); view = state_.views.find(self)) {
      const View through = view->second;
      const std::optional<ValueId> base = written_base(through, value);
      if (!base) {
        state_.lost.emplace(memory, refusal(through.node,
                                            "a write through this view changes its base, which is read "
                                            "later, and no operator expresses that"));
        break;
      }
      value = *base;
      self = through.base;
      renewed.emplace_back(self, value);
    }
    if (self == memory && state_.views.find(renewed.front().first) == state_.views.end()) state_.lost.erase(memory);
    const int writes = ++state_.writes[memory];
    for (const auto& [id, newest] : renewed) state_.versions[id] = {newest, writes};
  }

  std::optional<ValueId> written_base(const View& view, ValueId value) {
    if (view.kind == ViewKind::same) return value;
    if (view.kind == ViewKind::perhaps) return std::nullopt;
    const ValueId old_base = current(view.base);
    std::optional<Node> scatter = write_through(program_, view.node, view.output, view.argument, old_base, value);
    if (!scatter) return std::nullopt;
    const ValueId base = fresh_like(view.base);
    scatter->outputs = {base};
    sink_->push_back(std::move(*scatter));
    return base;
  }

  ValueId fresh_like(ValueId like) {
    Value value;
    value.name = program_.values[like].name + "." + std::to_string(program_.values.size());
    value.type = program_.values[like].type;
    program_.values.push_back(std::move(value));
    return static_cast<ValueId>(program_.values.size() - 1);
  }

  // ---- reporting ----------------------------------------------------------------------------------------------

  Diagnostic refusal(const Node& node, const std::string& why) const {
    return {Code::unsupported_feature,
            Severity::error,
            qualified(node) + ": " + why,
            place_of(program_, node, "lower"),
            program_.source.kind == "torch.export" && !node.target.starts_with("aten::")
                ? "program.run_decompositions() before torch.export.save, which says what is written"
                : "write the model without in-place operations here, e.g. with .clone() or torch.where",
            1,
            {}};
  }

  void tell_of_state(const Node& node, ValueId memory) {
    const Value& value = program_.values[memory];
    if (value.source != ValueSource::parameter || node.target == "aten::requires_grad_") return;
    const Parameter& parameter = program_.parameters[value.index];
    for (Diagnostic& known : notes_) {
      if (known.code != Code::state_not_kept || known.message.find("'" + parameter.name + "'") == std::string::npos)
        continue;
      ++known.count;
      return;
    }
    notes_.push_back(
        {Code::state_not_kept,
         Severity::warning,
         "the model writes to '" + parameter.name + "'; each run of the ONNX file starts from the archive's value",
         place_of(program_, node, "lower"),
         "return the new value as an output and take it as an input, if later runs need it",
         1,
         {}});
  }

  void report(const Diagnostic& diagnostic) {
    for (const Diagnostic& known : failures_) {
      if (known.message == diagnostic.message && known.where == diagnostic.where) return;
    }
    failures_.push_back(diagnostic);
  }

  Program& program_;
  Diagnostics& failures_;
  Diagnostics& notes_;
  State state_;
  std::unordered_map<ValueId, int> depth_of_;  // of values defined in nested blocks
  std::vector<Node>* sink_ = nullptr;          // the nodes of the block at hand, as they come out
  int depth_ = 0;
};

}  // namespace

void functionalize(Lowering& lowering) {
  const auto writes = [](const Node& node) { return is_in_place(node) || only_writes(node); };
  if (any_node(lowering.program.body, writes)) Functionalizer(lowering).run();
}

}  // namespace whence
