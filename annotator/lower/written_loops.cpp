// loop: x[i].copy_(s)                ->   x1 = loop (x' = x): select_scatter(x', s, 0, i)
// h = x;  loop: h.add_(1); h = h * 2 ->   x1, _ = loop (x' = x, h' = x, is_x = true): ..., false
//
// Outer memory that a loop body writes to becomes a further loop variable. A variable that may be one of several
// tensors is a choice (memory.h) by flags that the loop carries. The body is evaluated until the set of tensors that
// its variables may be stops growing; the nodes of the last evaluation stay.
#include <algorithm>
#include <optional>

#include "annotator/lower/functionalizer.h"
#include "annotator/lower/result_names.h"
#include "schema/program_walk.h"

namespace whence::lower {

// The tensors that each variable of a loop may be when an iteration begins, and the outer memory that is written.
struct LoopHead {
  std::vector<std::vector<Target>> variables;  // own memory comes last; empty for a variable that is not a tensor
  std::vector<UnclearEnd> unclear;
  std::vector<std::size_t> repeating;
  std::vector<ValueId> written;

  // Adds the targets and writes of an iteration. Returns true if none of them is new.
  bool covers(const Memory& memory, const BlockEnds& ends, const std::vector<ValueId>& newly_written) {
    bool known = true;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      for (const Target& target : ends.results[i]) known &= covers(memory, variables[i], target);
    }
    for (const UnclearEnd& each : ends.unclear) {
      const auto same = [&](const UnclearEnd& other) {
        return other.result == each.result && other.other == each.other && other.tensor == each.tensor;
      };
      if (std::ranges::any_of(unclear, same)) continue;
      unclear.push_back(each);
      known = false;
    }
    known &= covers(written, newly_written);
    known &= covers(repeating, ends.repeating);
    return known;
  }

 private:
  template <class T>
  static bool covers(std::vector<T>& known, const std::vector<T>& found) {
    const std::size_t before = known.size();
    for (const T& each : found) {
      if (std::ranges::find(known, each) == known.end()) known.push_back(each);
    }
    return known.size() == before;
  }
  static bool covers(const Memory& memory, std::vector<Target>& targets, const Target& target) {
    const auto same = [&](const Target& other) { return same_target(memory, other, target, memory.depth()); };
    if (std::ranges::any_of(targets, same)) return true;
    const bool own = !targets.empty() && targets.back().kind == Target::Kind::own;
    targets.insert(own ? targets.end() - 1 : targets.end(), target);
    return false;
  }
};

namespace {

constexpr int max_rounds = 8;  // each round finds at least one more tensor that a variable may be

bool is_read(const Block& block, ValueId id) {
  bool found = false;
  each_node(block, [&](const Node& node) { each_operand(node, [&](ValueId read) { found |= read == id; }); });
  return found;
}

// One evaluation of a loop whose variables may be the tensors of `head`.
class LoopAttempt {
 public:
  LoopAttempt(Program& program, WriteReports& reports, Memory& memory, const LoopHead& head, Node& node)
      : program_(program),
        reports_(reports),
        memory_(memory),
        head_(head),
        node_(node),
        body_(node.blocks[0]),
        variables_(body_.inputs.begin() + 1, body_.inputs.end()),
        results_(node.outputs),
        targets_(head.variables),
        flags_(variables_.size()),
        unclear_(reports.refusal(
            node, "variables of this loop are written to, and no condition decides whether they share memory")) {}

  // Evaluates the body once and returns its block ends. `run` evaluates the nodes.
  BlockEnds evaluate(const std::function<void()>& run) {
    begin();
    const Memory::State before = memory_.state();
    BlockEnds ends;
    memory_.in_block(body_.nodes, [&] {
      define_inputs();
      run();
      memory_.origin = node_.origin;
      const std::vector<Argument> left(body_.outputs.begin() + 1, body_.outputs.end());
      ends = block_ends(program_, memory_, left, unclear_);
      for (Argument& output : body_.outputs) memory_.resolve(output);
      set_outputs(ends);
    });
    memory_.restore(before);
    return ends;
  }

  // Adds the further variables to the node, and names its results.
  void finish() {
    ArgumentList& initial = std::get<ArgumentList>(node_.arguments.back().value.data);
    for (const Carried& each : carried_) {
      body_.inputs.push_back(each.inside);
      body_.outputs.push_back(each.next);
      initial.push_back(each.start);
      node_.outputs.push_back(memory_.fresh_like(each.inside));
    }
    for (std::size_t i = 0; i < head_.written.size(); ++i) set_written_memory(i);
    const auto result_of = [&](std::size_t at) { return node_.outputs[variables_.size() + at]; };
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (std::size_t k = 0; k < flags_[i].size(); ++k) {
        targets_[i][k].guard = {{ValueRef{result_of(flags_[i][k])}}, true};
      }
    }
    std::size_t next = 0;
    name(results_, memory_.depth(),
         [&](std::size_t, std::size_t, std::size_t, ValueId) { return result_of(numbers_[next++].carried); });
    for (std::size_t i = variables_.size(); i-- > 0;) {
      if (!is_kept(targets_[i])) continue;
      erase_at(body_.inputs, i + 1);
      erase_at(body_.outputs, i + 1);
      erase_at(node_.outputs, i);
      erase_at(initial, i);
    }
  }

 private:
  struct Carried {
    ValueId inside = none_id;
    Argument start, next;
  };
  // A number that the steps to a target read, by its position among the values that they read.
  struct Number {
    std::size_t variable = 0, target = 0, position = 0;
    std::size_t carried = 0;
  };

  void begin() {
    for (const Argument& start : *node_.find("initial")->as<ArgumentList>()) {
      const auto* value = start.as<ValueRef>();
      starts_.push_back(value == nullptr ? none_id : memory_.renamed(value->id));
    }
    for (NamedArgument& argument : node_.arguments) memory_.resolve(argument.value);
    for (const ValueId memory : head_.written) {
      carried_.push_back({none_id, {ValueRef{memory_.current(memory)}}, {}});
    }
  }

  std::size_t carry(ValueId inside, Argument start) {
    program_.values[inside].source = ValueSource::block_input;
    carried_.push_back({inside, std::move(start), {}});
    return carried_.size() - 1;
  }

  // Defines the values at the beginning of an iteration.
  void define_inputs() {
    for (const ValueId input : body_.inputs) memory_.define(input);
    for (std::size_t i = 0; i < head_.written.size(); ++i) {
      carried_[i].inside = memory_.fresh_like(head_.written[i]);
      program_.values[carried_[i].inside].source = ValueSource::block_input;
      memory_.set_content(head_.written[i], carried_[i].inside);
    }
    const Type flag{ValueKind::boolean, DType::boolean, std::nullopt};
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (std::size_t k = 0; k + 1 < targets_[i].size(); ++k) {
        const Target& target = targets_[i][k];
        const bool first = target.kind == Target::Kind::outside && target.tensor == starts_[i] && target.steps.empty();
        flags_[i].push_back(carry(memory_.fresh("flag", flag), Argument{first}));
        targets_[i][k].guard = {{ValueRef{carried_.back().inside}}, true};
      }
    }
    name(variables_, memory_.depth() - 1, [&](std::size_t i, std::size_t k, std::size_t position, ValueId made) {
      numbers_.push_back({i, k, position, carry(memory_.fresh_like(made), {})});
      return carried_.back().inside;
    });
  }

  void name(const std::vector<ValueId>& names, int outside, const ResultNames::OutsideValue& outside_value) {
    ResultNames result_names(memory_, names, outside);
    result_names.bind(targets_, outside_value);
    result_names.doubt(head_.unclear);
    result_names.repeat(head_.repeating, unclear_);
  }

  // Sets the values at the beginning of the next iteration.
  void set_outputs(const BlockEnds& ends) {
    for (std::size_t i = 0; i < head_.written.size(); ++i) {
      const Failure* lost = memory_.lost(head_.written[i]);
      lost_.push_back(lost == nullptr ? std::nullopt : std::optional(*lost));
      carried_[i].next = {ValueRef{memory_.newest(head_.written[i])}};
    }
    const int outside = memory_.depth() - 1;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (std::size_t k = 0; k < flags_[i].size(); ++k) {
        carried_[flags_[i][k]].next = one_of(ends.results[i], {false}, [&](Target& left) {
          return std::optional(Argument{same_target(memory_, targets_[i][k], left, outside)});
        });
      }
    }
    for (const Number& number : numbers_) {
      const Target& target = targets_[number.variable][number.target];
      carried_[number.carried].next = one_of(ends.results[number.variable], {}, [&](Target& left) {
        std::optional<Argument> found;
        std::size_t position = 0;
        if (!same_target(memory_, target, left, outside)) return found;
        each_step_value(left.steps, [&](ValueId id) {
          if (position++ == number.position) found = {ValueRef{id}};
        });
        return found;
      });
    }
  }

  // Selects a value by the conditions of the targets. `of` returns nullopt for a target without a value, which is
  // skipped.
  Argument one_of(std::vector<Target> targets, const Argument& otherwise, const auto& of) {
    std::optional<Argument> found;
    for (auto target = targets.rbegin(); target != targets.rend(); ++target) {
      const std::optional<Argument> value = of(*target);
      if (!value) continue;
      found = found ? memory_.select(target->guard, *value, *found) : *value;
    }
    return found.value_or(otherwise);
  }

  // Sets the content of the i-th written memory to the matching result of the loop.
  void set_written_memory(std::size_t i) {
    const ValueId memory = head_.written[i];
    memory_.set_content(memory, node_.outputs[variables_.size() + i]);
    memory_.recover(memory);
    if (!lost_[i]) return;
    if (is_read(body_, carried_[i].inside)) reports_.report(*lost_[i]);  // the next iteration reads it
    memory_.lose(memory, *lost_[i]);
  }

  Program& program_;
  WriteReports& reports_;
  Memory& memory_;
  const LoopHead& head_;
  Node& node_;
  Block& body_;
  std::vector<ValueId> variables_, results_, starts_;
  std::vector<std::vector<Target>> targets_;     // indexed by variable, with flags as conditions
  std::vector<std::vector<std::size_t>> flags_;  // by variable and target: index into `carried_`
  Failure unclear_;
  std::vector<Number> numbers_;
  std::vector<Carried> carried_;              // written memory first
  std::vector<std::optional<Failure>> lost_;  // indexed by written memory
};

}  // namespace

void Functionalizer::loop(Node node) {
  LoopHead head;
  for (const Argument& start : *node.find("initial")->as<ArgumentList>()) {
    std::vector<Target>& targets = head.variables.emplace_back();
    const auto* value = start.as<ValueRef>();
    if (value == nullptr) continue;
    const ValueKind kind = program_.values[value->id].type.kind;
    if (kind != ValueKind::tensor && kind != ValueKind::sequence) continue;
    targets.push_back({Target::Kind::outside, memory_.renamed(value->id)});
  }
  std::vector<Node>& nodes = *memory_.sink;
  const std::size_t nodes_before = nodes.size();
  const Memory::State before = memory_.state();
  const WriteReports::Mark reported = reports_.mark();
  for (int round = 0; round < max_rounds; ++round) {
    Node attempt = node;
    LoopAttempt loop(program_, reports_, memory_, head, attempt);
    const std::size_t writes = memory_.write_count();
    const BlockEnds ends = loop.evaluate([&] { run(attempt.blocks[0]); });
    memory_.origin = node.origin;
    if (head.covers(memory_, ends, memory_.written_since(writes))) {
      loop.finish();
      nodes.push_back(std::move(attempt));
      return;
    }
    nodes.resize(nodes_before);
    memory_.restore(before);
    reports_.restore(reported);
  }
  reports_.report(
      reports_.refusal(node, "cannot determine which tensors its variables are from one iteration to the next"));
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  nodes.push_back(std::move(node));
}

}  // namespace whence::lower
