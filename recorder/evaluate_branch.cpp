// prim::If. A condition that is settled is followed, and the program holds only what was taken; any other becomes a
// node whose branches are nested blocks.
#include <algorithm>

#include "recorder/evaluator.h"
#include "recorder/restore.h"

namespace whence {

namespace jit = torch::jit;

namespace {

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
  std::vector<ChangedContainer> changed = changeable_containers(node, call);
  std::array<std::vector<Term>, 2> results;
  std::array<std::vector<std::shared_ptr<std::vector<Term>>>, 2> held;
  std::array<std::vector<bool>, 2> shared;
  for (std::size_t side = 0; side < 2; ++side) {
    Restore sink(sink_);
    Restore depth(depth_);
    Restore speculative(speculative_);
    Restore followed(followed_);
    sink_ = &recorded.blocks[side].nodes;
    ++depth_;
    for (const ChangedContainer& container : changed) followed_[container.items.get()] = depth_;
    // A side that no run takes is evaluated for its shapes; if it fails on these inputs, it has none.
    bool taken = runs_ == 0;
    for (int run = 0; run < runs_; ++run) taken |= active_[run] && first[run] == (side == 0);
    speculative_ |= !taken;
    run_block(*node.blocks()[side], call);
    for (const jit::Value* output : node.blocks()[side]->outputs())
      results[side].push_back(term(output, call).copied());
    for (ChangedContainer& container : changed) results[side].push_back(container.take_back());
    for (const jit::Value* output : node.blocks()[side]->outputs()) {
      const Term& left = term(output, call);
      held[side].push_back(left.items);
      // Made before the branch, and still of use after it.
      shared[side].push_back(left.items && left.depth < depth_ && !last_used_by(node, *output));
    }
    forget(*node.blocks()[side], call);
  }
  Merge merge{first, first_inside, recorded};
  const std::size_t outputs = node.outputs().size();
  for (std::size_t i = 0; i < outputs; ++i) {
    const jit::Value& output = *node.outputs()[i];
    call.env[&output] = merged(results[0][i], results[1][i], output.debugName(), output.type(), merge);
    if (held[0][i] == held[1][i] || (!shared[0][i] && !shared[1][i])) continue;
    for (const auto& items : {held[0][i], held[1][i], call.env[&output].items}) in_doubt_.insert(items);
  }
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const auto unchanged = [&](std::size_t side) {
      return std::ranges::equal(*results[side][outputs + i].items, changed[i].before, same_term);
    };
    if (unchanged(0) && unchanged(1)) continue;
    *changed[i].items = *merged(results[0][outputs + i], results[1][outputs + i], "list", changed[i].type, merge).items;
  }
  sink_->push_back(std::move(recorded));
}

// Whether a node made one of the term's values, and not before `first`.
bool Evaluator::made_since(ValueId first, const Term& term) const {
  if (term.is_value()) return term.id >= first && program_.values[term.id].source == ValueSource::node;
  return term.items && std::ranges::any_of(*term.items, [&](const Term& item) { return made_since(first, item); });
}

// One result out of two: unchanged when both sides agree, else a value of the program.
Term Evaluator::merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge) {
  const bool only_b = a.kind == Term::Kind::none, only_a = b.kind == Term::Kind::none;
  if (only_a && only_b) return a;
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object && a.object == b.object) return a;
  if (a.kind == Term::Kind::literal && b.kind == Term::Kind::literal && same_literal(*a.seen[0], *b.seen[0])) return a;
  if (a.is_value() && b.is_value() && a.id == b.id) return a;
  if (a.items && a.items == b.items) return a;
  if (a.is_container() && b.is_container() && a.items->size() == b.items->size()) {
    std::vector<Term> items;
    for (std::size_t i = 0; i < a.items->size(); ++i) {
      items.push_back(merged((*a.items)[i], (*b.items)[i], name, item_type(type, i), merge));
    }
    return Term::container(a.kind, std::move(items), depth_);
  }
  // A side that returned before leaves nothing behind; the other one decides. What that one made itself is out of sight
  // unless it is a result.
  const Term& other = only_b ? b : a;
  if ((only_a || only_b) && (other.is_container() || other.kind == Term::Kind::object)) {
    if (!made_since(merge.first_inside, other)) return other;
    const Term nothing;
    std::vector<Term> items;
    for (std::size_t i = 0; i < other.items->size(); ++i) {
      const Term& item = (*other.items)[i];
      const c10::TypePtr inner = item_type(type, i);
      if (made_since(merge.first_inside, item)) {
        items.push_back(only_b ? merged(nothing, item, name, inner, merge) : merged(item, nothing, name, inner, merge));
      } else {
        items.push_back(item);
      }
    }
    return Term::container(other.kind, std::move(items), depth_);
  }
  const bool lists = (only_b || a.kind == Term::Kind::list) && (only_a || b.kind == Term::Kind::list);
  return lists ? merged_sequence(a, b, name, type, merge) : merged_value(a, b, name, type, merge);
}

// Lists of different lengths, or of a length that is not known.
Term Evaluator::merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type,
                                Merge& merge) {
  const std::array<const Term*, 2> sides{&a, &b};
  const auto element_of = [&](const Term& list) {
    const bool tells = list.items && !list.items->empty() && list.items->front().is_value();
    return tells ? program_.values[list.items->front().id].type.dtype : DType::undefined;
  };
  std::array<Term, 2> wholes;
  std::array<DType, 2> dtypes{};
  for (std::size_t side = 0; side < 2; ++side) {
    const Term list = sides[side]->items ? *sides[side] : Term::container(Term::Kind::list, {});
    wholes[side] =
        sequence_of(list, type, element_of(*sides[1 - side]), merge.recorded.blocks[side].nodes, merge.recorded.origin);
    dtypes[side] = program_.values[wholes[side].id].type.dtype;
  }
  const DType dtype = dtypes[dtypes[0] == DType::undefined ? 1 : 0];
  if (dtypes[1] != DType::undefined && dtypes[1] != dtype) {
    throw Error(Code::unsupported_feature, "the two sides of a condition leave lists of different dtypes",
                "bring their elements to one dtype", {.stage = "read", .op = "prim::If"});
  }
  Term whole = merged_value(wholes[0], wholes[1], name, type, merge);
  whole.sequence = true;
  program_.values[whole.id].type = {ValueKind::sequence, dtype, std::nullopt};
  return Term::container(Term::Kind::list, {std::move(whole)}, depth_);
}

Term Evaluator::merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type,
                             Merge& merge) {
  const bool only_b = a.kind == Term::Kind::none, only_a = b.kind == Term::Kind::none;
  Term result;
  result.kind = Term::Kind::value;
  for (int run = 0; run < runs_; ++run) {
    const Term& taken = only_b ? b : only_a ? a : (merge.take_first[run] ? a : b);
    const int at = taken.is_value() ? run : 0;
    result.seen[run] = taken.seen[at];
  }
  result.id = new_value(name, ValueSource::node, none_id);
  Type merged_type = type_of(result.seen, type);
  // Sizes on which the two sides do not agree may be either.
  for (const Term* side : {&a, &b}) {
    if (!side->is_value() || !merged_type.dims) continue;
    const auto& dims = program_.values[side->id].type.dims;
    if (!dims) {
      for (Dim& dim : *merged_type.dims) dim = {dim.size, true, none_id};
      continue;
    }
    if (dims->size() != merged_type.dims->size()) {
      merged_type.dims.reset();
      continue;
    }
    for (std::size_t i = 0; i < dims->size(); ++i) {
      Dim& dim = (*merged_type.dims)[i];
      if ((*dims)[i] == dim) continue;
      data_sizes_.insert((*dims)[i].size);
      dim = {dim.size, true, none_id};
    }
  }
  program_.values[result.id].type = std::move(merged_type);
  mark_data_shaped(result.id);
  note_passage(result.id, {&a, &b});
  merge.recorded.blocks[0].outputs.push_back(argument(a, nullptr));
  merge.recorded.blocks[1].outputs.push_back(argument(b, nullptr));
  merge.recorded.outputs.push_back(result.id);
  return result;
}

}  // namespace whence
