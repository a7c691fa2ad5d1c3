#include "recorder/script/branch_merge.h"

#include <algorithm>

#include "recorder/base/torch_error.h"
#include "recorder/script/sequences.h"

namespace whence::recorder::script {

namespace {

bool is_unset(const Term& term) { return term.kind == Term::Kind::unset; }

// Returns true if both sides end with the same term.
bool agree(const Term& a, const Term& b) {
  if (a.kind == b.kind && (is_unset(a) || a.kind == Term::Kind::none)) return true;
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object) return a.object == b.object;
  if (a.kind == Term::Kind::literal && b.kind == Term::Kind::literal)
    return program::same_literal(*a.seen[0], *b.seen[0]);
  if (a.is_value() && b.is_value()) return a.id == b.id;
  return a.items && a.items == b.items;
}

}  // namespace

const Term& BranchSide::final_contents(const Term& container) const {
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (changed[i].items == container.items) return contents[i];
  }
  return container;
}

void BranchMerge::set_changed() {
  std::vector<ChangedContainer> changed = sides_[0].changed;
  for (const ChangedContainer& container : sides_[1].changed) {
    const auto same = [&](const ChangedContainer& other) { return other.items == container.items; };
    if (std::ranges::none_of(changed, same)) changed.push_back(container);
  }
  std::vector<std::pair<Items, Term>> now;  // set at the end: a container may be inside another
  for (const ChangedContainer& container : changed) {
    Term before = Term::container(container.kind, {});
    before.items = container.items;
    const Term &a = sides_[0].final_contents(before), &b = sides_[1].final_contents(before);
    const auto unchanged = [&](const Term& left) {
      return std::ranges::equal(*left.items, container.before, program::same_term);
    };
    if (unchanged(a) && unchanged(b)) continue;
    now.emplace_back(container.items, merged_contents(a, b, "list", container.type));
  }
  for (const auto& [items, contents] : now) *items = *contents.items;
}

// Returns true if a node inside one of the sides produces the value.
bool BranchMerge::made_inside(const Term& term) const {
  return term.is_value() && term.id >= first_inside_ && recording_.values.source(term.id) == ValueSource::node;
}

Term BranchMerge::merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  if (agree(a, b)) return a;
  if (is_unset(a) || is_unset(b)) return merged_with_unset(a, b, name, type);
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object) {
    refuse("the two sides of a condition produce different objects",
           "set the attributes of one object, or keep its tensors in variables");
  }
  const bool optional = a.may_be_none() || b.may_be_none();
  if (!optional && (!a.items || !b.items || a.kind != b.kind)) return merged_value(a, b, name, type);
  return optional ? merged_containers(a.as_optional(), b.as_optional(), name, type)
                  : merged_containers(a, b, name, type);
}

// Merges two containers, one of which may be unset.
Term BranchMerge::merged_containers(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  if (!is_list_or_dict(a) && !is_list_or_dict(b)) return merged_contents(a, b, name, type);
  const auto [known, added] = merged_containers_.try_emplace({a.items, b.items});
  if (!added) return known->second;
  Term merged = merged_contents(sides_[0].final_contents(a), sides_[1].final_contents(b), name, type);
  replacements_.note(merged.items, {a.items, b.items});
  return known->second = merged;
}

Term BranchMerge::merged_contents(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  if (a.kind == Term::Kind::dict && b.kind == Term::Kind::dict) program::check_same_keys(a, b);
  const Term& either = is_unset(a) ? b : a;
  const bool by_items = (is_unset(a) || a.is_container()) && (is_unset(b) || b.is_container());
  const bool by_one = is_unset(a) || is_unset(b);
  if (by_one && either.is_sequence() && !made_inside(either.items->front())) {
    return Term::of_sequence(either.items->front(), recording_.runs.depth);
  }
  if (!by_items || (!by_one && a.items->size() != b.items->size())) {
    return either.kind == Term::Kind::list ? merged_sequence(a, b, name, type) : merged_value(a, b, name, type);
  }
  std::vector<Term> items;
  for (std::size_t i = 0; i < either.items->size(); ++i) {
    items.push_back(
        merged(is_unset(a) ? a : (*a.items)[i], is_unset(b) ? b : (*b.items)[i], name, program::item_type(type, i)));
  }
  return Term::container(either.kind, std::move(items), recording_.runs.depth);
}

// Merges a result that one side lacks because it returned early: takes the result of the other side. A value that a
// node inside that side produces must become a result of the branch node to be visible outside.
Term BranchMerge::merged_with_unset(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  const Term& left = is_unset(b) ? a : b;
  const bool older = is_list_or_dict(left) && left.depth <= recording_.runs.depth;
  if (older) return left;
  if (left.items) return merged_containers(a, b, name, type);
  return made_inside(left) ? merged_value(a, b, name, type) : left;
}

// Merges lists of different or unknown lengths.
Term BranchMerge::merged_sequence(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  const std::array<const Term*, 2> sides{&a, &b};
  std::array<Term, 2> sequences;
  std::array<DType, 2> dtypes{};
  for (std::size_t side = 0; side < 2; ++side) {
    const Term list = sides[side]->items ? *sides[side] : Term::container(Term::Kind::list, {});
    sequences[side] = sequence_of(recording_, list, type, element_dtype_of(recording_, *sides[1 - side]),
                                  node_.blocks[side].nodes, node_.origin);
    dtypes[side] = recording_.values.dtype(sequences[side]);
  }
  const DType dtype = dtypes[dtypes[0] == DType::undefined ? 1 : 0];
  if (dtypes[1] != DType::undefined && dtypes[1] != dtype) {
    refuse("the two sides of a condition produce lists of different dtypes", "convert their elements to one dtype");
  }
  Term sequence = merged_value(sequences[0], sequences[1], name, type);
  recording_.values.type(sequence.id) = {ValueKind::sequence, dtype, std::nullopt};
  return Term::of_sequence(std::move(sequence), recording_.runs.depth);
}

// Compares the dtypes of both sides with that of the result, which is the dtype in the example: an ONNX value has one
// dtype. Warns if the result can represent a side's values, and refuses otherwise.
void BranchMerge::check_dtypes(const Term& a, const Term& b, DType taken) {
  for (const Term* side : {&a, &b}) {
    if (!side->is_value() || taken == DType::undefined) continue;
    const Type& type = recording_.values.type(side->id);
    if (type.kind != ValueKind::tensor || type.dtype == DType::undefined || type.dtype == taken) continue;
    const std::string both = std::string(name_of(type.dtype)) + " and of " + std::string(name_of(taken));
    const auto wider = c10::promoteTypes(static_cast<at::ScalarType>(to_scalar_type(type.dtype)),
                                         static_cast<at::ScalarType>(to_scalar_type(taken)));
    if (static_cast<int>(wider) != to_scalar_type(taken)) {
      refuse("the two sides of a condition produce tensors of " + both,
             "convert them to one dtype, or pass an example that takes the other side");
    }
    recording_.writer.notes.push_back(
        warning(Code::unsupported_feature,
                "the two sides of a condition produce tensors of " + both + ": in the file both are the latter",
                "convert them to one dtype if a consumer of the file depends on it", {.stage = "read"}));
  }
}

// Makes each size of `type` dynamic that differs from the side's size. Returns false if the side may have another rank.
bool BranchMerge::keep_common_sizes(Type& type, const Term& side) {
  if (!side.is_value() || !type.dims) return true;
  const auto& dims = recording_.values.type(side.id).dims;
  if (dims && dims->size() != type.dims->size()) {
    for (Dim& dim : *type.dims) dim = {dim.size, true, none_id};
    return false;
  }
  for (std::size_t i = 0; i < type.dims->size(); ++i) {
    Dim& dim = (*type.dims)[i];
    if (dims && (*dims)[i] == dim) continue;
    dim = {dim.size, true, none_id};
  }
  return !recording_.mixed_ranks.contains(side.id);
}

// Notes that the result is an alias of a tensor defined before the branch, or may be an alias of either side's tensor.
void BranchMerge::note_alias(ValueId result, const Term& a, const Term& b) {
  const ValueId tensor = recording_.aliases.first_name(is_unset(a) ? b : a);
  const bool outside = tensor != none_id && tensor < first_inside_;
  if (outside && (is_unset(a) || is_unset(b) || tensor == recording_.aliases.first_name(b))) {
    recording_.aliases.note_same_tensor(result, tensor);
  } else {
    recording_.aliases.note_possible_alias(result, {&a, &b});
  }
}

Term BranchMerge::merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  RunValues seen = recording_.runs.each([&](int run) {
    const Term& taken = is_unset(a) || (!is_unset(b) && !take_first_[run]) ? b : a;
    return taken.seen[taken.is_value() ? run : 0];
  });
  Type merged_type = recording_.values.type_of(seen, type);
  const ValueId id = recording_.values.add(name, ValueSource::node);
  check_dtypes(a, b, merged_type.dtype);
  bool one_rank = true;
  for (const Term* side : {&a, &b}) one_rank &= keep_common_sizes(merged_type, *side);
  if (!one_rank) recording_.mixed_ranks.insert(id);
  ranks_differ_ |= !one_rank;
  recording_.values.type(id) = std::move(merged_type);
  note_alias(id, a, b);
  node_.blocks[0].outputs.push_back(program::argument(a, nullptr));
  node_.blocks[1].outputs.push_back(program::argument(b, nullptr));
  node_.outputs.push_back(id);
  return Term::of_value(id, std::move(seen));
}

}  // namespace whence::recorder::script
