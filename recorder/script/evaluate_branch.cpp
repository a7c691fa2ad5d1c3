// prim::If. A condition that is settled is followed, and the program holds only what was taken; any other becomes a
// node whose branches are nested blocks.
#include <algorithm>

#include "recorder/script/evaluator.h"
#include "recorder/script/restore.h"
#include "recorder/script/watch.h"

namespace whence::recorder {

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
  heed_refusals(node, condition, call);
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

// A model that takes the example may raise at another size: it holds that size fixed, or a witness is of no use.
void Evaluator::heed_refusals(const jit::Node& node, const Term& condition, const Call& call) {
  if (condition.settled()) return;
  const auto refused = [&](int run) {
    const bool counts = run < runs_ && active_[run] && alive_[run] && !pretends_[run] && condition.seen[run];
    return counts && raises(*node.blocks()[condition.seen[run]->toBool() ? 0 : 1]);
  };
  if (refused(0)) return;  // told where it raises
  for (int run = 2; run < runs_; ++run) {
    if (refused(run)) alive_[run] = false;
  }
  if (!refused(1)) return;
  SecondRunFailed failure(Code::baked_size, "the model raises an error at a size that a dynamic axis would allow",
                          "let the model take other sizes, or leave that axis out of --dynamic", place(node, call));
  failure.reached = program_.values.size();
  throw failure;
}

// Where the results of two sides meet.
struct Evaluator::Merge {
  const PerRun<bool>& take_first;
  ValueId first_inside;  // values from here on may have been made by one of the sides
  Node& recorded;
};

// What one side leaves.
struct Evaluator::Side {
  std::vector<Term> results;
  std::vector<std::shared_ptr<std::vector<Term>>> held;  // by the results, when they are containers
  std::vector<bool> shared;                              // what a result holds has another name
  std::vector<ChangedContainer> changed;
  std::vector<Term> contents;  // of those
};

void Evaluator::branch_node(const jit::Node& node, Call& call) {
  const Term condition = term(node.input(), call);
  Node recorded;
  recorded.target = "prim::If";
  recorded.arguments.push_back({"condition", argument(condition, nullptr)});
  recorded.origin.scope = call.scope;
  recorded.origin.stack = frames_.stack_of(node, call.function, call.callers);
  recorded.blocks.resize(2);

  PerRun<bool> first, second;
  first.fill(true);
  for (int run = 0; run < runs_; ++run) {
    if (condition.seen[run]) first[run] = condition.seen[run]->toBool();
    second[run] = !condition.seen[run] || !first[run];
  }
  const auto first_inside = static_cast<ValueId>(program_.values.size());
  std::array<Side, 2> sides;
  for (std::size_t side = 0; side < 2; ++side) {
    Restore sink(sink_);
    sink_ = &recorded.blocks[side].nodes;
    sides[side] = run_side(node, side, side == 0 ? first : second, call);
  }
  Merge merge{first, first_inside, recorded};
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const jit::Value& output = *node.outputs()[i];
    call.env[&output] = merged(sides[0].results[i], sides[1].results[i], output.debugName(), output.type(), merge);
    const auto &held = sides[0].held[i], &other = sides[1].held[i];
    if (held == other || (!sides[0].shared[i] && !sides[1].shared[i])) continue;
    for (const auto& items : {held, other, call.env[&output].items}) in_doubt_.insert(items);
  }
  merge_changed(sides, merge);
  sink_->push_back(std::move(recorded));
}

// Evaluates one side. A run that does not take it comes along for the shapes; if it fails there, it has none.
Evaluator::Side Evaluator::run_side(const jit::Node& node, std::size_t side, const PerRun<bool>& takes, Call& call) {
  Restore depth(depth_);
  Restore pretends(pretends_);
  ++depth_;
  PerRun<bool> strays{};
  for (int run = 0; run < runs_; ++run) {
    strays[run] = !takes[run];
    pretends_[run] = pretends_[run] || strays[run];
  }
  Watch watch(*this, depth_, strays);
  const jit::Block& block = *node.blocks()[side];
  run_block(block, call);
  Side left;
  for (const jit::Value* output : block.outputs()) {
    const Term& result = term(output, call);
    left.results.push_back(result.copied());
    left.held.push_back(result.items);
    // Made before the branch, and still of use after it.
    left.shared.push_back(result.items && result.depth < depth_ && !last_used_by(node, *output));
  }
  forget(block, call);
  left.changed = std::move(watch.changed);
  for (ChangedContainer& container : left.changed) left.contents.push_back(container.take_back());
  return left;
}

// Lists, dicts and attributes that one of the sides changed.
void Evaluator::merge_changed(std::array<Side, 2>& sides, Merge& merge) {
  std::vector<ChangedContainer> changed = sides[0].changed;
  for (const ChangedContainer& container : sides[1].changed) {
    const auto same = [&](const ChangedContainer& other) { return other.items == container.items; };
    if (std::ranges::none_of(changed, same)) changed.push_back(container);
  }
  const auto left_by = [&](const Side& side, const ChangedContainer& container) {
    for (std::size_t i = 0; i < side.changed.size(); ++i) {
      if (side.changed[i].items == container.items) return side.contents[i];
    }
    return Term::container(container.kind, container.before);
  };
  for (const ChangedContainer& container : changed) {
    const Term first = left_by(sides[0], container), second = left_by(sides[1], container);
    const auto unchanged = [&](const Term& left) {
      return std::ranges::equal(*left.items, container.before, same_term);
    };
    if (unchanged(first) && unchanged(second)) continue;
    *container.items = *merged(first, second, "list", container.type, merge).items;
  }
}

// True if a node made one of the term's values, and not before `first`.
bool Evaluator::made_since(ValueId first, const Term& term) const {
  if (term.is_value()) return term.id >= first && program_.values[term.id].source == ValueSource::node;
  return term.items && std::ranges::any_of(*term.items, [&](const Term& item) { return made_since(first, item); });
}

// One result out of two: unchanged when both sides agree, else a value of the program.
Term Evaluator::merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type, Merge& merge) {
  const bool only_b = a.kind == Term::Kind::unset, only_a = b.kind == Term::Kind::unset;
  if (a.kind == b.kind && (only_a || a.kind == Term::Kind::none)) return a;
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object && a.object == b.object) return a;
  if (a.kind == Term::Kind::literal && b.kind == Term::Kind::literal && same_literal(*a.seen[0], *b.seen[0])) return a;
  if (a.is_value() && b.is_value() && a.id == b.id) return a;
  if (a.items && a.items == b.items) return a;
  if (only_a || only_b) return left_by_one(a, b, name, type, merge);
  const auto may_be_none = [](const Term& term) { return term.kind == Term::Kind::none || term.is_optional(); };
  const bool optional = may_be_none(a) || may_be_none(b);
  const Term &first = optional ? a.as_optional() : a, &second = optional ? b.as_optional() : b;
  if (first.kind == Term::Kind::dict && second.kind == Term::Kind::dict) check_same_keys(first, second);
  if (first.is_container() && second.is_container() && first.kind == second.kind &&
      first.items->size() == second.items->size()) {
    std::vector<Term> items;
    for (std::size_t i = 0; i < first.items->size(); ++i) {
      items.push_back(merged((*first.items)[i], (*second.items)[i], name, item_type(type, i), merge));
    }
    return Term::container(first.kind, std::move(items), depth_);
  }
  const bool lists = a.kind == Term::Kind::list && b.kind == Term::Kind::list;
  return lists ? merged_sequence(a, b, name, type, merge) : merged_value(a, b, name, type, merge);
}

// A side that returned before leaves nothing behind; the other one decides. What that one made itself is out of sight
// unless it is a result.
Term Evaluator::left_by_one(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type,
                            Merge& merge) {
  const Term nothing = Term::nothing();
  const bool first = b.kind == Term::Kind::unset;
  const Term& left = first ? a : b;
  if (!made_since(merge.first_inside, left)) return left;
  if (left.is_sequence()) return merged_sequence(a, b, name, type, merge);
  if (left.is_value()) return merged_value(a, b, name, type, merge);
  std::vector<Term> items;
  for (std::size_t i = 0; i < left.items->size(); ++i) {
    const Term& item = (*left.items)[i];
    const c10::TypePtr inner = item_type(type, i);
    items.push_back(first ? merged(item, nothing, name, inner, merge) : merged(nothing, item, name, inner, merge));
  }
  return Term::container(left.kind, std::move(items), depth_);
}

// Lists of different lengths, or of a length that is not known.
Term Evaluator::merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type,
                                Merge& merge) {
  const std::array<const Term*, 2> sides{&a, &b};
  std::array<Term, 2> wholes;
  std::array<DType, 2> dtypes{};
  for (std::size_t side = 0; side < 2; ++side) {
    const Term list = sides[side]->items ? *sides[side] : Term::container(Term::Kind::list, {});
    wholes[side] =
        sequence_of(list, type, dtype_held(*sides[1 - side]), merge.recorded.blocks[side].nodes, merge.recorded.origin);
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

// A value of ONNX has one dtype: that of the side which the example takes, if it can hold what the other one leaves.
void Evaluator::check_dtypes_of_sides(const Term& a, const Term& b, DType taken) {
  for (const Term* side : {&a, &b}) {
    if (!side->is_value() || taken == DType::undefined) continue;
    const Type& type = program_.values[side->id].type;
    if (type.kind != ValueKind::tensor || type.dtype == DType::undefined || type.dtype == taken) continue;
    const std::string both = std::string(name_of(type.dtype)) + " and of " + std::string(name_of(taken));
    const auto wider = c10::promoteTypes(static_cast<at::ScalarType>(to_scalar_type(type.dtype)),
                                         static_cast<at::ScalarType>(to_scalar_type(taken)));
    if (static_cast<int>(wider) != to_scalar_type(taken)) {
      throw Error(Code::unsupported_feature, "the two sides of a condition leave tensors of " + both,
                  "bring them to one dtype, or give an example that takes the other side", {.stage = "read"});
    }
    notes_.push_back({Code::unsupported_feature,
                      Severity::warning,
                      "the two sides of a condition leave tensors of " + both + ": in the file both are the latter",
                      {.stage = "read"},
                      "bring them to one dtype, if what reads the file counts on it",
                      1,
                      {}});
  }
}

Term Evaluator::merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type,
                             Merge& merge) {
  const bool only_b = a.kind == Term::Kind::unset, only_a = b.kind == Term::Kind::unset;
  Term result;
  result.kind = Term::Kind::value;
  for (int run = 0; run < runs_; ++run) {
    const Term& taken = only_b ? b : only_a ? a : (merge.take_first[run] ? a : b);
    const int at = taken.is_value() ? run : 0;
    result.seen[run] = taken.seen[at];
  }
  result.id = new_value(name, ValueSource::node, none_id);
  Type merged_type = type_of(result.seen, type);
  check_dtypes_of_sides(a, b, merged_type.dtype);
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
  const ValueId tensor = first_name(only_b ? b : a);
  const bool outside = tensor != none_id && tensor < merge.first_inside;
  if (outside && (only_a || only_b || tensor == first_name(b))) {
    same_as_[result.id] = tensor;
  } else {
    note_passage(result.id, {&a, &b});
  }
  merge.recorded.blocks[0].outputs.push_back(argument(a, nullptr));
  merge.recorded.blocks[1].outputs.push_back(argument(b, nullptr));
  merge.recorded.outputs.push_back(result.id);
  return result;
}

}  // namespace whence::recorder
