#include "recorder/script/results.h"

#include "recorder/base/torch_error.h"
#include "recorder/program/finish.h"
#include "recorder/script/sequences.h"
#include "schema/program_walk.h"

namespace whence::recorder::script {

namespace {

bool is_read(const std::vector<Node>& nodes, ValueId id) {
  bool found = false;
  const auto look = [&](ValueId read) { found |= read == id; };
  for (const Node& node : nodes) {
    each_operand(node, look);
    for (const Block& block : node.blocks) each_value_read(block, look);
  }
  return found;
}

// True for a list of tensors or numbers, which ONNX sequences can contain.
bool holds_elements(const c10::TypePtr& type) {
  if (!type || type->kind() != c10::TypeKind::ListType) return false;
  const auto kind = program::item_type(type, 0)->kind();
  return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
         kind == c10::TypeKind::BoolType;
}

// Returns an empty list as one sequence: it has no elements that could be outputs.
Term empty_result(Recording& recording, const Term& list, const c10::TypePtr& type) {
  const Type element = recording.values.type_of({}, program::item_type(type, 0));
  const DType dtype = element.dtype == DType::undefined ? DType::float32 : element.dtype;
  return Term::of_sequence(sequence_of(recording, list, type, dtype, recording.program.body.nodes, Origin()),
                           list.depth);
}

// Gives a result whose rank depends on data the example's rank, if no node in the model reads it.
void state_rank(Recording& recording, const Term& term,
                std::unordered_map<ValueId, std::vector<SettledSqueeze>>& squeezed) {
  Value& value = recording.program.values[term.id];
  const auto& seen = term.seen[0];
  if (value.type.kind != ValueKind::tensor || !seen || !seen->isTensor()) return;
  const bool two_ranks = recording.mixed_ranks.contains(term.id);
  if (value.type.dims && !two_ranks && !squeezed.contains(term.id)) return;
  if (is_read(recording.program.body.nodes, term.id)) return;
  squeezed.erase(term.id);
  recording.mixed_ranks.erase(term.id);
  if (two_ranks || !value.type.dims) {
    value.type.dims = std::vector<Dim>(static_cast<std::size_t>(seen->toTensor().dim()), {-1, true, none_id});
  }
  recording.writer.notes.push_back(
      warning(Code::unsupported_feature,
              "the rank of the result '" + value.name + "' depends on data: the file has that of the example",
              "return tensors of one rank if a consumer of the file depends on it", {.stage = "read"}));
}

// Completes a block that returns an optional with this content, or an empty one.
void add_optional(Recording& recording, Block& block, const Type& type, std::vector<NamedArgument> content) {
  Node node;
  node.target = "prim::Optional";
  node.arguments = std::move(content);
  node.outputs.push_back(recording.values.add("optional", ValueSource::node, type));
  block.outputs.push_back({ValueRef{node.outputs.front()}});
  block.nodes.push_back(std::move(node));
}

// Returns an ONNX optional with one tensor or number if `flag` is true, else without.
Term optional_value(Recording& recording, const Term& flag, const Term& content) {
  Type type{ValueKind::optional, DType::undefined, std::vector<Dim>()};
  if (content.is_value()) {
    type = recording.values.type(content.id);
    type.kind = ValueKind::optional;
  } else {
    type.dtype = program::dtype_of_number(*content.seen[0]);
  }
  Node node;
  node.target = "prim::If";
  node.arguments.push_back({"condition", program::argument(flag, nullptr)});
  node.blocks.resize(2);
  add_optional(recording, node.blocks[0], type, {{"content", program::argument(content, nullptr)}});
  add_optional(recording, node.blocks[1], type, {});
  return Term::of_value(recording.write(std::move(node), "optional", std::move(type)));
}

}  // namespace

Term converted_result(Recording& recording, const Term& term, const c10::TypePtr& type,
                      std::unordered_map<ValueId, std::vector<SettledSqueeze>>& squeezed) {
  if (term.is_optional()) {
    const auto settled = term.flag().settled();
    if (settled && !settled->toBool()) return Term();
    const Term& content = term.content();
    if (settled) return converted_result(recording, content, nullptr, squeezed);
    // If one optional is inside another, the inner flag is enough: an absent optional has an absent content.
    if (content.is_optional()) return converted_result(recording, content, type, squeezed);
    if (content.is_container()) {
      std::vector<Term> items;
      for (std::size_t i = 0; i < content.items->size(); ++i) {
        const Term& item = (*content.items)[i];
        const Term part = Term::container(Term::Kind::optional, {term.flag(), item});
        items.push_back(content.is_key(i) ? item : converted_result(recording, part, nullptr, squeezed));
      }
      return Term::container(content.kind, std::move(items), content.depth);
    }
    if (content.is_value() || content.kind == Term::Kind::literal) {
      return optional_value(recording, term.flag(), content);
    }
    throw Error(Code::unsupported_feature, "the model returns a list whose length depends on data, or None",
                "return an empty list instead of None", {.stage = "read"});
  }
  if (term.is_value()) state_rank(recording, term, squeezed);
  if (!term.is_container()) return term;
  if (term.items->empty() && holds_elements(type)) return empty_result(recording, term, type);
  std::vector<Term> items;
  for (std::size_t i = 0; i < term.items->size(); ++i) {
    items.push_back(converted_result(recording, (*term.items)[i], program::item_type(type, i), squeezed));
  }
  return Term::container(term.kind, std::move(items), term.depth);
}

}  // namespace whence::recorder::script
