// prim::If and prim::Loop. A condition that is settled is followed, and the program holds only what was taken; any
// other becomes a node whose branches or body are nested blocks.
#include <algorithm>

#include "recorder/evaluator.h"

namespace whence {

namespace jit = torch::jit;

namespace {

// Restores members that a nested evaluation changes, also when it throws.
template <class T>
class Restore {
 public:
  explicit Restore(T& place) : place_(place), before_(place) {}
  ~Restore() { place_ = std::move(before_); }
  Restore(const Restore&) = delete;

 private:
  T& place_;
  T before_;
};

bool raises(const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    if (node->kind() == c10::prim::RaiseException) return true;
  }
  return false;
}

}  // namespace

void Evaluator::branch(const jit::Node& node, Call& call) {
  const Term condition = term(node.input(), call);
  const auto side = side_to_follow(node, condition);
  if (!side) return branch_node(node, call);
  const jit::Block& taken = *node.blocks()[*side];
  run_block(taken, call);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) call.env[node.outputs()[i]] = term(taken.outputs()[i], call);
}

// The one side that counts, if there is one: that of a settled condition, or the side beside one that raises. ONNX
// cannot raise, so what is exported computes what the model computes for inputs that it accepts; example inputs that it
// does not accept are refused where it raises.
std::optional<std::size_t> Evaluator::side_to_follow(const jit::Node& node, const Term& condition) const {
  if (const auto settled = condition.settled()) return settled->toBool() ? 0 : 1;
  const std::array<bool, 2> raising{raises(*node.blocks()[0]), raises(*node.blocks()[1])};
  if (raising[0] == raising[1]) return std::nullopt;
  const std::size_t other = raising[0] ? 1 : 0;
  for (int run = 0; run < runs_; ++run) {
    if (active_[run] && condition.seen[run] && condition.seen[run]->toBool() == raising[0]) return std::nullopt;
  }
  return other;
}

// Where the results of two sides meet.
struct Evaluator::Merge {
  const PerRun<bool>& take_first;
  ValueId first_inside;  // values from here on may have been made by one of the sides
  Node& recorded;
};

void Evaluator::branch_node(const jit::Node& node, Call& call) {
  const Term condition = term(node.input(), call);
  Node recorded;
  recorded.target = "prim::If";
  recorded.arguments.push_back({"condition", argument(condition, nullptr)});
  recorded.origin.scope = call.scope;
  recorded.origin.stack = frames_.stack_of(node, call.function, call.callers);
  recorded.blocks.resize(2);

  PerRun<bool> first;
  first.fill(true);
  for (int run = 0; run < runs_; ++run) {
    if (condition.seen[run]) first[run] = condition.seen[run]->toBool();
  }
  const auto first_inside = static_cast<ValueId>(program_.values.size());
  std::array<std::vector<Term>, 2> results;
  for (std::size_t side = 0; side < 2; ++side) {
    Restore sink(sink_);
    Restore depth(depth_);
    Restore speculative(speculative_);
    sink_ = &recorded.blocks[side].nodes;
    ++depth_;
    // A side that no run takes is evaluated for its shapes; if it fails on these inputs, it has none.
    bool taken = runs_ == 0;
    for (int run = 0; run < runs_; ++run) taken |= active_[run] && first[run] == (side == 0);
    speculative_ |= !taken;
    run_block(*node.blocks()[side], call);
    for (const jit::Value* output : node.blocks()[side]->outputs()) results[side].push_back(term(output, call));
  }
  Merge merge{first, first_inside, recorded};
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    call.env[node.outputs()[i]] = merged(results[0][i], results[1][i], *node.outputs()[i], merge);
  }
  sink_->push_back(std::move(recorded));
}

// Whether a node made one of the term's values, and not before `first`.
bool Evaluator::made_since(ValueId first, const Term& term) const {
  if (term.is_value()) return term.id >= first && program_.values[term.id].source == ValueSource::node;
  return term.items && std::ranges::any_of(*term.items, [&](const Term& item) { return made_since(first, item); });
}

// One result out of two: unchanged when both sides agree, else a value of the program.
Term Evaluator::merged(const Term& a, const Term& b, const jit::Value& output, Merge& merge) {
  if (a.kind == Term::Kind::none && b.kind == Term::Kind::none) return a;
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object && a.object == b.object) return a;
  if (a.kind == Term::Kind::literal && b.kind == Term::Kind::literal && same_literal(*a.seen[0], *b.seen[0])) return a;
  if (a.is_container() && b.is_container() && a.items->size() == b.items->size()) {
    if (a.items == b.items) return a;
    std::vector<Term> items;
    for (std::size_t i = 0; i < a.items->size(); ++i) {
      items.push_back(merged((*a.items)[i], (*b.items)[i], output, merge));
    }
    return Term::container(a.kind, std::move(items), depth_);
  }
  const bool only_b = a.kind == Term::Kind::none, only_a = b.kind == Term::Kind::none;
  // A side that returned before leaves nothing behind; the other one decides. What that one made itself is out of sight
  // unless it is a result.
  const Term& other = only_b ? b : a;
  if ((only_a || only_b) && (other.is_container() || other.kind == Term::Kind::object)) {
    if (!made_since(merge.first_inside, other)) return other;
    const Term nothing;
    std::vector<Term> items;
    for (const Term& item : *other.items) {
      if (!made_since(merge.first_inside, item)) {
        items.push_back(item);
      } else {
        items.push_back(only_b ? merged(nothing, item, output, merge) : merged(item, nothing, output, merge));
      }
    }
    return Term::container(other.kind, std::move(items), depth_);
  }
  Term result;
  result.kind = Term::Kind::value;
  for (int run = 0; run < runs_; ++run) {
    const Term& taken = only_b ? b : only_a ? a : (merge.take_first[run] ? a : b);
    const int at = taken.is_value() ? run : 0;
    result.seen[run] = taken.seen[at];
  }
  result.id = new_value(output.debugName(), ValueSource::node, none_id);
  Type type = type_of(result.seen, output.type());
  // Sizes on which the two sides do not agree may be either.
  for (const Term* side : {&a, &b}) {
    if (!side->is_value() || !type.dims) continue;
    const auto& dims = program_.values[side->id].type.dims;
    if (!dims) continue;
    if (dims->size() != type.dims->size()) {
      type.dims.reset();
      continue;
    }
    for (std::size_t i = 0; i < dims->size(); ++i) {
      if (!((*dims)[i] == (*type.dims)[i])) (*type.dims)[i] = {(*type.dims)[i].size, true, none_id};
    }
  }
  program_.values[result.id].type = std::move(type);
  merge.recorded.blocks[0].outputs.push_back(argument(a, nullptr));
  merge.recorded.blocks[1].outputs.push_back(argument(b, nullptr));
  merge.recorded.outputs.push_back(result.id);
  return result;
}

void Evaluator::loop(const jit::Node& node, Call& call) {
  if (!unroll(node, call)) loop_node(node, call);
}

// Follows a loop whose trip count and conditions are settled. Gives up, taking back what it recorded, when a condition
// turns out to depend on data. Values stay, for parameters and constants may have been met for the first time; those
// that nothing mentions go in the end (finish.cpp).
bool Evaluator::unroll(const jit::Node& node, Call& call) {
  const auto trips = term(node.inputs()[0], call).settled();
  auto condition = term(node.inputs()[1], call).settled();
  if (!trips || !condition) return false;
  const jit::Block& body = *node.blocks()[0];
  const std::size_t recorded = sink_->size(), scopes = program_.scopes.size();
  const auto calls = calls_;

  std::vector<Term> carried;
  for (std::size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(term(node.inputs()[i], call));
  for (std::int64_t trip = 0; trip < trips->toInt() && condition->toBool(); ++trip) {
    call.env[body.inputs()[0]] = Term::literal(trip);
    for (std::size_t i = 0; i < carried.size(); ++i) call.env[body.inputs()[i + 1]] = carried[i];
    run_block(body, call);
    condition = term(body.outputs()[0], call).settled();
    if (!condition) {
      sink_->resize(recorded);
      program_.scopes.resize(scopes);
      calls_ = calls;
      return false;
    }
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = term(body.outputs()[i + 1], call);
  }
  for (std::size_t i = 0; i < carried.size(); ++i) call.env[node.outputs()[i]] = carried[i];
  return true;
}

// A loop whose length depends on data: its body is recorded once, on the first iteration, then the runs go on to the
// end without recording, so that what follows has its shapes.
void Evaluator::loop_node(const jit::Node& node, Call& call) {
  const jit::Block& body = *node.blocks()[0];
  const Term trips = term(node.inputs()[0], call), condition = term(node.inputs()[1], call);
  Node recorded;
  recorded.target = "prim::Loop";
  recorded.arguments.push_back({"max_trip_count", argument(trips, nullptr)});
  recorded.arguments.push_back({"condition", argument(condition, nullptr)});
  recorded.origin.scope = call.scope;
  recorded.origin.stack = frames_.stack_of(node, call.function, call.callers);
  recorded.blocks.resize(1);
  Block& block = recorded.blocks[0];

  const auto host_at = [](const Term& term, int run) -> std::optional<c10::IValue> {
    return term.is_value() ? term.seen[run] : term.settled();
  };
  ArgumentList initial;
  std::vector<Term> carried;
  Term index;
  index.kind = Term::Kind::value;
  index.id = new_value("iteration", ValueSource::block_input, none_id);
  program_.values[index.id].type = {ValueKind::integer, DType::int64, std::nullopt};
  for (int run = 0; run < runs_; ++run) index.seen[run] = c10::IValue(0);
  block.inputs.push_back(index.id);
  for (std::size_t i = 2; i < node.inputs().size(); ++i) {
    const Term start = term(node.inputs()[i], call);
    if (start.is_container() || start.kind == Term::Kind::object || start.kind == Term::Kind::none) {
      if (start.is_container()) {
        refuse(node, call, "a loop whose length depends on data carries a list or tuple",
               "carry tensors; stack them into one");
      }
      carried.push_back(start);
      continue;
    }
    initial.push_back(argument(start, nullptr));
    Term term;
    term.kind = Term::Kind::value;
    term.id = new_value(node.inputs()[i]->debugName(), ValueSource::block_input, none_id);
    for (int run = 0; run < runs_; ++run) term.seen[run] = host_at(start, run);
    program_.values[term.id].type = type_of(term.seen, node.inputs()[i]->type());
    block.inputs.push_back(term.id);
    carried.push_back(std::move(term));
  }
  recorded.arguments.push_back({"initial", Argument{initial}});

  const auto bound = [&](int run) -> std::int64_t {
    const auto value = host_at(trips, run);
    return value && value->isInt() ? value->toInt() : 0;
  };
  const auto goes = [&](const Term& term, int run) {
    const auto value = host_at(term, run);
    return value && value->isBool() && value->toBool();
  };
  std::vector<Node> discarded;
  std::vector<Term> last = carried;  // per run, what the loop leaves behind
  {
    Restore sink(sink_);
    Restore depth(depth_);
    Restore active(active_);
    Restore speculative(speculative_);
    ++depth_;
    PerRun<bool> going{};
    for (int run = 0; run < runs_; ++run) going[run] = active_[run] && bound(run) > 0 && goes(condition, run);
    for (std::int64_t trip = 0;; ++trip) {
      sink_ = trip == 0 ? &block.nodes : &discarded;
      const bool runs = std::any_of(going.begin(), going.end(), [](bool goes_on) { return goes_on; });
      if (trip > 0 && !runs) break;
      speculative_ |= !runs;  // no run enters: the body is evaluated once, for the record
      const auto before = active_;
      if (runs) active_ = going;
      for (int run = 0; run < runs_; ++run) index.seen[run] = c10::IValue(trip);
      call.env[body.inputs()[0]] = index;
      for (std::size_t i = 0; i < carried.size(); ++i) call.env[body.inputs()[i + 1]] = carried[i];
      run_block(body, call);
      active_ = before;
      const Term next = term(body.outputs()[0], call);
      if (trip == 0) {
        block.outputs.push_back(argument(next, nullptr));
        for (std::size_t i = 0; i < carried.size(); ++i) {
          if (carried[i].is_value()) block.outputs.push_back(argument(term(body.outputs()[i + 1], call), nullptr));
        }
      }
      for (std::size_t i = 0; i < carried.size(); ++i) {
        if (!carried[i].is_value()) continue;
        const Term result = term(body.outputs()[i + 1], call);
        for (int run = 0; run < runs_; ++run) {
          if (going[run]) carried[i].seen[run] = last[i].seen[run] = host_at(result, run);
        }
      }
      for (int run = 0; run < runs_; ++run) going[run] = going[run] && trip + 1 < bound(run) && goes(next, run);
      discarded.clear();
    }
  }
  for (std::size_t i = 0; i < carried.size(); ++i) {
    Term result = last[i];
    if (result.is_value()) {
      const Type inside = program_.values[carried[i].id].type;
      result.id = new_value(node.outputs()[i]->debugName(), ValueSource::node, none_id);
      Type type = type_of(result.seen, node.outputs()[i]->type());
      // A size that changes from iteration to iteration has no fixed value, inside or after.
      if (type.dims && inside.dims && type.dims->size() == inside.dims->size()) {
        for (std::size_t d = 0; d < type.dims->size(); ++d) {
          if ((*type.dims)[d] == (*inside.dims)[d]) continue;
          (*type.dims)[d] = {(*type.dims)[d].size, true, none_id};
          (*program_.values[carried[i].id].type.dims)[d] = (*type.dims)[d];
        }
      }
      program_.values[result.id].type = std::move(type);
      recorded.outputs.push_back(result.id);
    }
    call.env[node.outputs()[i]] = std::move(result);
  }
  sink_->push_back(std::move(recorded));
}

}  // namespace whence
