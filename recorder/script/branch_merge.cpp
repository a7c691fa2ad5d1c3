#include "recorder/script/branch_merge.h"

#include <algorithm>

#include "recorder/base/torch_error.h"
#include "recorder/script/sequences.h"

namespace whence::recorder {

namespace {

bool is_unset(const Term& term) { return term.kind == Term::Kind::unset; }

// True where both sides leave the same.
bool agree(const Term& a, const Term& b) {
  if (a.kind == b.kind && (is_unset(a) || a.kind == Term::Kind::none)) return true;
  if (a.kind == Term::Kind::object && b.kind == Term::Kind::object) return a.object == b.object;
  if (a.kind == Term::Kind::literal && b.kind == Term::Kind::literal) return same_literal(*a.seen[0], *b.seen[0]);
  if (a.is_value() && b.is_value()) return a.id == b.id;
  return a.items && a.items == b.items;
}

}  // namespace

void BranchMerge::merge_changed(const ChangedContainer& container, const Term& a, const Term& b) {
  const auto unchanged = [&](const Term& left) { return std::ranges::equal(*left.items, container.before, same_term); };
  if (unchanged(a) && unchanged(b)) return;
  *container.items = *merged(a, b, "list", container.type).items;
}

// True if a node of one of the sides made one of the term's values.
bool BranchMerge::made_inside(const Term& term) const {
  if (term.is_value()) {
    return term.id >= first_inside_ && recording_.values.source(term.id) == ValueSource::node;
  }
  return term.items && std::ranges::any_of(*term.items, [&](const Term& item) { return made_inside(item); });
}

Term BranchMerge::merged(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  if (agree(a, b)) return a;
  if (is_unset(a) || is_unset(b)) return left_by_one(a, b, name, type);
  const bool optional = a.may_be_none() || b.may_be_none();
  const Term &first = optional ? a.as_optional() : a, &second = optional ? b.as_optional() : b;
  if (first.kind == Term::Kind::dict && second.kind == Term::Kind::dict) check_same_keys(first, second);
  if (first.is_container() && second.is_container() && first.kind == second.kind &&
      first.items->size() == second.items->size()) {
    std::vector<Term> items;
    for (std::size_t i = 0; i < first.items->size(); ++i) {
      items.push_back(merged((*first.items)[i], (*second.items)[i], name, item_type(type, i)));
    }
    return Term::container(first.kind, std::move(items), recording_.runs.depth);
  }
  const bool lists = a.kind == Term::Kind::list && b.kind == Term::Kind::list;
  return lists ? merged_sequence(a, b, name, type) : merged_value(a, b, name, type);
}

// A side that returned before leaves nothing behind; the other one decides. What that one made itself is out of sight
// unless it is a result.
Term BranchMerge::left_by_one(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  const Term nothing = Term::nothing();
  const bool first = is_unset(b);
  const Term& left = first ? a : b;
  if (!made_inside(left)) return left;
  if (left.is_sequence()) return merged_sequence(a, b, name, type);
  if (left.is_value()) return merged_value(a, b, name, type);
  std::vector<Term> items;
  for (std::size_t i = 0; i < left.items->size(); ++i) {
    const Term& item = (*left.items)[i];
    const c10::TypePtr inner = item_type(type, i);
    items.push_back(first ? merged(item, nothing, name, inner) : merged(nothing, item, name, inner));
  }
  return Term::container(left.kind, std::move(items), recording_.runs.depth);
}

// Lists of different lengths, or of a length that is not known.
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
    refuse("the two sides of a condition leave lists of different dtypes", "bring their elements to one dtype");
  }
  Term sequence = merged_value(sequences[0], sequences[1], name, type);
  recording_.values.type(sequence.id) = {ValueKind::sequence, dtype, std::nullopt};
  return Term::of_sequence(std::move(sequence), recording_.runs.depth);
}

// A value of ONNX has one dtype: that of the side which the example takes, if it can hold what the other one leaves.
void BranchMerge::check_dtypes(const Term& a, const Term& b, DType taken) {
  for (const Term* side : {&a, &b}) {
    if (!side->is_value() || taken == DType::undefined) continue;
    const Type& type = recording_.values.type(side->id);
    if (type.kind != ValueKind::tensor || type.dtype == DType::undefined || type.dtype == taken) continue;
    const std::string both = std::string(name_of(type.dtype)) + " and of " + std::string(name_of(taken));
    const auto wider = c10::promoteTypes(static_cast<at::ScalarType>(to_scalar_type(type.dtype)),
                                         static_cast<at::ScalarType>(to_scalar_type(taken)));
    if (static_cast<int>(wider) != to_scalar_type(taken)) {
      refuse("the two sides of a condition leave tensors of " + both,
             "bring them to one dtype, or give an example that takes the other side");
    }
    recording_.writer.notes.push_back(
        warning(Code::unsupported_feature,
                "the two sides of a condition leave tensors of " + both + ": in the file both are the latter",
                "bring them to one dtype, if what reads the file counts on it", {.stage = "read"}));
  }
}

// Sizes that the side does not have may be either.
void BranchMerge::keep_common_sizes(Type& type, const Term& side) {
  if (!side.is_value() || !type.dims) return;
  const auto& dims = recording_.values.type(side.id).dims;
  if (dims && dims->size() != type.dims->size()) return type.dims.reset();
  for (std::size_t i = 0; i < type.dims->size(); ++i) {
    Dim& dim = (*type.dims)[i];
    if (dims && (*dims)[i] == dim) continue;
    if (dims) recording_.data_sizes.note((*dims)[i].size);
    dim = {dim.size, true, none_id};
  }
}

// The result is another name of a tensor from before the branch, or may be one or another.
void BranchMerge::note_alias(ValueId result, const Term& a, const Term& b) {
  const ValueId tensor = recording_.aliases.first_name(is_unset(a) ? b : a);
  const bool outside = tensor != none_id && tensor < first_inside_;
  if (outside && (is_unset(a) || is_unset(b) || tensor == recording_.aliases.first_name(b))) {
    recording_.aliases.note_same(result, tensor);
  } else {
    recording_.aliases.note_passage(result, {&a, &b});
  }
}

Term BranchMerge::merged_value(const Term& a, const Term& b, const std::string& name, const c10::TypePtr& type) {
  Seen seen = recording_.runs.each([&](int run) {
    const Term& taken = is_unset(a) || (!is_unset(b) && !take_first_[run]) ? b : a;
    return taken.seen[taken.is_value() ? run : 0];
  });
  Type merged_type = recording_.values.type_of(seen, type);
  const ValueId id = recording_.values.add(name, ValueSource::node);
  check_dtypes(a, b, merged_type.dtype);
  for (const Term* side : {&a, &b}) keep_common_sizes(merged_type, *side);
  recording_.values.type(id) = std::move(merged_type);
  recording_.data_sizes.mark(id);
  note_alias(id, a, b);
  node_.blocks[0].outputs.push_back(argument(a, nullptr));
  node_.blocks[1].outputs.push_back(argument(b, nullptr));
  node_.outputs.push_back(id);
  return Term::of_value(id, std::move(seen));
}

}  // namespace whence::recorder
