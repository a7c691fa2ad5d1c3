// What the model returns, where ONNX has another form for it.
//
// None or a tensor as the data has it: inside the model that is a flag and a content (term.h), which every runtime
// takes; a caller is given one ONNX optional for each tensor.
//
// A list that is empty in every run: an empty sequence.
//
// A tensor whose rank depends on data: ONNX's checker wants a shape for each result of a file, so it gets that of the
// example, all sizes open. Runtimes take other ranks.

#include "recorder/program/finish.h"
#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace {

bool is_read(const std::vector<Node>& nodes, ValueId id) {
  bool found = false;
  for (const Node& node : nodes) {
    each_argument(node, [&](ValueId read) { found |= read == id; });
    for (const Block& block : node.blocks) found = found || is_read(block.nodes, id);
  }
  return found;
}

// A list of tensors or numbers, as ONNX sequences can be.
bool holds_elements(const c10::TypePtr& type) {
  if (!type || type->kind() != c10::TypeKind::ListType) return false;
  const auto kind = item_type(type, 0)->kind();
  return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
         kind == c10::TypeKind::BoolType;
}

}  // namespace

// The result with a value of the Program wherever a tensor may be None. `type` is what forward declares.
Term Evaluator::returned(const Term& term, const c10::TypePtr& type) {
  if (term.is_optional()) return optional_result(term.given(), term.content());
  if (term.is_value()) state_rank(term);
  if (!term.is_container()) return term;
  if (term.items->empty() && holds_elements(type)) return empty_result(term, type);
  std::vector<Term> items;
  for (std::size_t i = 0; i < term.items->size(); ++i) {
    items.push_back(returned((*term.items)[i], item_type(type, i)));
  }
  return Term::container(term.kind, std::move(items), term.depth);
}

// A list that stays empty has no element to be an output, so it is one itself.
Term Evaluator::empty_result(const Term& list, const c10::TypePtr& type) {
  const Type element = type_of({}, item_type(type, 0));
  const DType dtype = element.dtype == DType::undefined ? DType::float32 : element.dtype;
  Origin origin;
  origin.scope = 0;
  Term whole = sequence_of(list, type, dtype, program_.body.nodes, origin);
  return Term::container(Term::Kind::list, {std::move(whole)}, list.depth);
}

// Only where nothing inside the model counts on the rank.
void Evaluator::state_rank(const Term& term) {
  const Value& value = program_.values[term.id];
  const auto& seen = term.seen[0];
  if (value.type.kind != ValueKind::tensor || !seen || !seen->isTensor()) return;
  if (value.type.dims && !squeezed_.contains(term.id)) return;
  if (is_read(program_.body.nodes, term.id)) return;
  squeezed_.erase(term.id);
  if (!value.type.dims) {
    program_.values[term.id].type.dims =
        std::vector<Dim>(static_cast<std::size_t>(seen->toTensor().dim()), {-1, true, none_id});
  }
  notes_.push_back({Code::unsupported_feature,
                    Severity::warning,
                    "the rank of the result '" + value.name + "' depends on data: the file says that of the example",
                    {.stage = "read"},
                    "return tensors of one rank, if what reads the file counts on it",
                    1,
                    {}});
}

Term Evaluator::optional_result(const Term& given, const Term& content) {
  if (const auto settled = given.settled()) return settled->toBool() ? returned(content, nullptr) : Term();
  // What is not there holds nothing, so the flag of an optional inside of one decides alone.
  if (content.is_optional()) return optional_result(content.given(), content.content());
  if (content.is_container()) {
    std::vector<Term> items;
    for (std::size_t i = 0; i < content.items->size(); ++i) {
      const Term& item = (*content.items)[i];
      const bool key = content.kind == Term::Kind::dict && i % 2 == 0;
      items.push_back(key ? item : optional_result(given, item));
    }
    return Term::container(content.kind, std::move(items), content.depth);
  }
  if (!content.is_value() && content.kind != Term::Kind::literal) {
    throw Error(Code::unsupported_feature, "the model returns a list whose length depends on data, or None",
                "return an empty list instead of None", {.stage = "read"});
  }
  Type type{ValueKind::optional, DType::undefined, std::vector<Dim>()};
  if (content.is_value()) {
    type = program_.values[content.id].type;
    type.kind = ValueKind::optional;
  } else {
    type.dtype = dtype_of_number(*content.seen[0]);
  }
  Node recorded;
  recorded.target = "prim::If";
  recorded.origin.scope = 0;
  recorded.arguments.push_back({"condition", argument(given, nullptr)});
  recorded.blocks.resize(2);
  add_optional(recorded.blocks[0], type, {{"content", argument(content, nullptr)}});
  add_optional(recorded.blocks[1], type, {});
  Term result;
  result.kind = Term::Kind::value;
  result.id = new_value("optional", ValueSource::node, none_id);
  program_.values[result.id].type = std::move(type);
  recorded.outputs.push_back(result.id);
  program_.body.nodes.push_back(std::move(recorded));
  return result;
}

void Evaluator::add_optional(Block& block, const Type& type, std::vector<NamedArgument> content) {
  Node made;
  made.target = "prim::Optional";
  made.origin.scope = 0;
  made.arguments = std::move(content);
  made.outputs.push_back(new_value("optional", ValueSource::node, none_id));
  program_.values[made.outputs.front()].type = type;
  block.outputs.push_back({ValueRef{made.outputs.front()}});
  block.nodes.push_back(std::move(made));
}

}  // namespace whence::recorder
