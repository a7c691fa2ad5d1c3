// What the model returns that is None or a tensor as the data has it. Inside the model that is a flag and a content
// (term.h), which every runtime takes; a caller is given one ONNX optional for each tensor.
#include "recorder/evaluator.h"

namespace whence {

// The result with a value of the Program wherever a tensor may be None.
Term Evaluator::returned(const Term& term) {
  if (term.is_optional()) return optional_result(term.given(), term.content());
  if (!term.is_container()) return term;
  std::vector<Term> items;
  for (const Term& item : *term.items) items.push_back(returned(item));
  return Term::container(term.kind, std::move(items), term.depth);
}

Term Evaluator::optional_result(const Term& given, const Term& content) {
  if (const auto settled = given.settled()) return settled->toBool() ? returned(content) : Term();
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

}  // namespace whence
