// Containers and other host objects: resolved here, so that the Program holds none of them.
#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

const c10::Symbol is_grad_enabled = c10::Symbol::fromQualString("aten::is_grad_enabled");
const c10::Symbol data = c10::Symbol::fromQualString("prim::data");

bool same_key(const Term& key, const c10::IValue& wanted) {
  const auto settled = key.settled();
  return settled && same_literal(*settled, wanted);
}

// x[a:b] = value: a trace expands the value to the example's sizes before the write, which would do so by itself.
bool expands_for_write(const jit::Node& node) {
  const auto& uses = node.output()->uses();
  return uses.size() == 1 && uses[0].user->kind() == c10::aten::copy_ && uses[0].offset == 1;
}

}  // namespace

std::size_t Evaluator::index_of(const jit::Node& node, const Call& call, const Term& container, const Term& index) {
  if (!container.is_container()) {
    refuse(node, call, "a tuple or list is read that differs between the branches of a condition",
           "return tensors from both branches");
  }
  const auto settled = index.settled();
  if (!settled || !settled->isInt()) {
    refuse(node, call, "a list of modules or tensors is indexed with a number that depends on the input",
           "stack the tensors and use index_select");
  }
  const auto size = static_cast<std::int64_t>(container.items->size());
  const std::int64_t at = settled->toInt() < 0 ? settled->toInt() + size : settled->toInt();
  if (at < 0 || at >= size)
    refuse(node, call, "list index " + std::to_string(settled->toInt()) + " is out of range", "check the model");
  return static_cast<std::size_t>(at);
}

// Nodes that only build, take apart or inspect host objects. False: the node is an operation.
bool Evaluator::structural(const jit::Node& node, Call& call) {
  const auto in = [&](std::size_t i) -> const Term& { return term(node.inputs()[i], call); };
  const auto all = [&] {
    std::vector<Term> items;
    for (const jit::Value* value : node.inputs()) items.push_back(term(value, call));
    return items;
  };
  const auto set = [&](Term result) {
    call.env[node.outputs()[0]] = std::move(result);
    return true;
  };
  const auto literal = [&](c10::IValue value) { return set(Term::literal(std::move(value))); };

  switch (node.kind()) {
    case c10::prim::ListConstruct:
      return set(Term::container(Term::Kind::list, all(), depth_));
    case c10::prim::TupleConstruct:
      return set(Term::container(Term::Kind::tuple, all(), depth_));
    case c10::prim::DictConstruct:
      return set(Term::container(Term::Kind::dict, all(), depth_));
    case c10::prim::ListUnpack:
    case c10::prim::TupleUnpack: {
      if (in(0).is_sequence()) return unpack_sequence(node, call, Term(in(0))), true;
      if (!in(0).is_container()) return false;
      const auto items = in(0).items;
      if (items->size() != node.outputs().size()) {
        refuse(
            node, call,
            "a list of " + std::to_string(items->size()) + " is unpacked into " + std::to_string(node.outputs().size()),
            "run with inputs of the sizes the model was traced with");
      }
      for (std::size_t i = 0; i < items->size(); ++i) call.env[node.outputs()[i]] = (*items)[i];
      return true;
    }
    case c10::prim::TupleIndex:
      return set((*in(0).items)[index_of(node, call, in(0), in(1))]);
    case c10::prim::TupleSlice: {
      const auto begin = static_cast<std::ptrdiff_t>(node.i(c10::attr::beg)),
                 end = static_cast<std::ptrdiff_t>(node.i(c10::attr::end));
      return set(
          Term::container(Term::Kind::tuple, {in(0).items->begin() + begin, in(0).items->begin() + end}, depth_));
    }
    case c10::prim::CreateObject: {
      const auto type = node.output()->type()->expect<c10::ClassType>();
      Term object;
      object.kind = Term::Kind::object;
      object.object = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), type->numAttributes());
      made_at_[object.object.get()] = depth_;
      return set(std::move(object));
    }
    case c10::prim::isinstance: {
      const auto value = host(in(0), node.inputs()[0]->type(), 0);
      if (!value) return false;
      const auto& types = node.tys(c10::attr::types);
      return literal(
          std::ranges::any_of(types, [&](const c10::TypePtr& type) { return value->type()->isSubtypeOf(*type); }));
    }
    case c10::prim::Uninitialized:
      return set(Term::nothing());
    case c10::aten::expand:
      return runs_ > 1 && expands_for_write(node) && set(in(0));
    case c10::prim::unchecked_cast:
    case c10::prim::unchecked_unwrap_optional:
    case c10::aten::_unwrap_optional:
      return set(in(0).is_optional() ? in(0).content() : in(0));
    case c10::aten::Int:
    case c10::aten::ScalarImplicit:
      // Tracing turns sizes into tensors and back around every use; the number that comes out is the one that went in.
      // PyTorch removes these pairs wherever it inlines a method and keeps them in the outermost one; so do we, that
      // our operations are those of the trace's inlined graph, one by one.
      if (!in(0).number || call.outermost) return false;
      return set(*in(0).number);
    case c10::prim::Print:
    case c10::prim::Enter:
    case c10::prim::Exit:
      for (const jit::Value* output : node.outputs()) call.env[output] = Term();
      return true;
    case c10::prim::RaiseException: {
      if (speculative() || (runs_ == 0 && depth_ > 0)) return true;
      const auto message = in(0).settled();
      refuse(node, call,
             "the program raises: " +
                 (message && message->isString() ? message->toStringRef() : std::string("an exception")),
             "give inputs that the model accepts");
    }
    case c10::aten::warn:
      return true;
    case c10::aten::__is__:
    case c10::aten::__isnot__: {
      const Term &a = in(0), &b = in(1);
      const bool negated = node.kind() == c10::aten::__isnot__;
      if (a.is_optional() && b.kind == Term::Kind::none) return set(negated ? a.given() : is_none(node, call, a));
      const bool none = a.kind == Term::Kind::none || b.kind == Term::Kind::none;
      if (!none && !(a.is_value() && b.is_value())) return false;
      const bool same = none ? a.kind == b.kind : a.id == b.id;
      return literal(same != negated);
    }
    default:
      // Asked by PyTorch's own layers, to choose fused kernels over the operators that they are made of; we want those.
      if (node.kind() == is_grad_enabled) return literal(true);
      if (node.kind() == data) return set(in(0));  // x.data is x but for gradients
      return list_method(node, call);
  }
}

Term Evaluator::is_none(const jit::Node& node, const Call& call, const Term& optional) {
  if (const auto given = optional.given().settled()) return Term::literal(!given->toBool());
  Node recorded;
  recorded.target = "aten::__not__";
  recorded.origin = origin_of(node, call);
  recorded.arguments.push_back({"self", argument(optional.given(), nullptr)});
  PerRun<std::optional<c10::IValue>> seen;
  for (int run = 0; run < runs_; ++run) {
    if (const auto& given = optional.given().seen[run]) seen[run] = !given->toBool();
  }
  Term answer = result(*node.output(), std::move(seen), false, recorded);
  sink_->push_back(std::move(recorded));
  return answer;
}

// Methods of lists and dicts whose elements the evaluator holds.
bool Evaluator::list_method(const jit::Node& node, Call& call) {
  if (node.inputs().empty()) return false;
  const Term first = term(node.inputs()[0], call);
  if (first.is_sequence()) return call_sequence_method(node, call, first);
  if (!first.is_container()) return false;
  if (first.kind == Term::Kind::list && node.inputs().size() == 2 && term(node.inputs()[1], call).is_sequence()) {
    if (joined_with_sequence(node, call, first)) return true;
  }
  if (indexed_by_data(node, call, first)) return true;
  std::vector<Term>& items = *first.items;
  const std::string name = node.kind().toUnqualString();
  const auto in = [&](std::size_t i) -> const Term& { return term(node.inputs()[i], call); };
  if (name == "slice" && !std::ranges::all_of(node.inputs().slice(1), [&](const jit::Value* value) {
        return term(value, call).settled().has_value();
      })) {
    refuse(node, call, "a list is cut at a place that depends on the input", "cut it at constant places");
  }
  const auto set = [&](Term result) {
    if (!node.outputs().empty()) call.env[node.outputs()[0]] = std::move(result);
    return true;
  };
  const bool dict = first.kind == Term::Kind::dict;
  const auto entry = [&](const Term& key) -> std::size_t {  // index of the key, items.size() when absent
    const auto wanted = key.settled();
    if (!wanted) refuse(node, call, "a dict is read with a key that depends on the input", "use constant keys");
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (same_key(items[i], *wanted)) return i;
    }
    return items.size();
  };
  const auto change = [&] { note_change(node, call, first, node.input(0)->type()); };

  // What is not carried out here would leave the container as it was.
  const auto refuse_change = [&] {
    refuse(node, call, "a list or dict is changed by '" + name + "'", "build a new one instead");
  };

  if (name == "len") return set(Term::literal(static_cast<std::int64_t>(dict ? items.size() / 2 : items.size())));
  if (name == "__getitem__") {
    if (!dict) return set(Term(items[index_of(node, call, first, in(1))]));
    const std::size_t at = entry(in(1));
    if (at == items.size()) refuse(node, call, "a dict lacks the key that is read", "check the model's inputs");
    return set(items[at + 1]);
  }
  if (name == "__contains__") {
    if (dict) return set(Term::literal(entry(in(1)) != items.size()));
    const auto wanted = in(1).settled();
    if (!wanted) return false;
    bool settled = true;
    for (const Term& item : items) {
      if (same_key(item, *wanted)) return set(Term::literal(true));
      settled &= item.settled().has_value();
    }
    return settled && set(Term::literal(false));
  }
  if (dict) {
    if (name == "keys" || name == "values") {
      std::vector<Term> half;
      for (std::size_t i = name == "keys" ? 0 : 1; i < items.size(); i += 2) half.push_back(items[i]);
      return set(Term::container(Term::Kind::list, std::move(half), depth_));
    }
    if (name == "items") {
      std::vector<Term> pairs;
      for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        pairs.push_back(Term::container(Term::Kind::tuple, {items[i], items[i + 1]}, depth_));
      }
      return set(Term::container(Term::Kind::list, std::move(pairs), depth_));
    }
    if (name == "get") {
      const std::size_t at = entry(in(1));
      if (at != items.size()) return set(items[at + 1]);
      return set(node.inputs().size() > 2 ? in(2) : Term());
    }
    if (name == "_set_item") {
      change();
      const std::size_t at = entry(in(1));
      if (at != items.size()) {
        items[at + 1] = in(2);
      } else {
        items.push_back(in(1));
        items.push_back(in(2));
      }
      return set({});
    }
    if (name == "Delete") {
      change();
      const std::size_t at = entry(in(1));
      if (at == items.size()) refuse(node, call, "a dict lacks the key that is deleted", "check the model's inputs");
      const auto place = items.begin() + static_cast<std::ptrdiff_t>(at);
      items.erase(place, place + 2);
      return set({});
    }
    if (changes_first_argument(node)) refuse_change();
    return false;
  }
  if (name == "append") {
    change();
    items.push_back(in(1));
    return set(first);
  }
  if (name == "_set_item") {
    change();
    items[index_of(node, call, first, in(1))] = in(2);
    return set(first);
  }
  if (name == "extend" || (name == "add_" && in(1).is_container())) {  // add_ is +=, which gives the list back
    change();
    const std::vector<Term> more = *in(1).items;
    items.insert(items.end(), more.begin(), more.end());
    return set(name == "extend" ? Term() : first);
  }
  if (name == "insert") {
    change();
    const auto at = in(1).settled();
    if (!at) return false;
    const auto clamped =
        std::clamp<std::int64_t>(at->toInt() < 0 ? at->toInt() + static_cast<std::int64_t>(items.size()) : at->toInt(),
                                 0, static_cast<std::int64_t>(items.size()));
    items.insert(items.begin() + clamped, in(2));
    return set({});
  }
  if (name == "pop") {
    change();
    const std::size_t at = node.inputs().size() > 1 ? index_of(node, call, first, in(1)) : items.size() - 1;
    Term popped = items.at(at);
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    return set(std::move(popped));
  }
  if (name == "Delete") {
    change();
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(index_of(node, call, first, in(1))));
    return set({});
  }
  if (name == "clear" || name == "reverse") {
    change();
    if (name == "clear")
      items.clear();
    else
      std::reverse(items.begin(), items.end());
    return set({});
  }
  if (name == "list" || name == "copy") return set(Term::container(Term::Kind::list, items, depth_));
  if (name == "add" && node.inputs().size() == 2 && in(1).is_container()) {
    std::vector<Term> sum = items;
    sum.insert(sum.end(), in(1).items->begin(), in(1).items->end());
    return set(Term::container(Term::Kind::list, std::move(sum), depth_));
  }
  if (name == "mul" && in(1).settled() && in(1).settled()->isInt()) {
    std::vector<Term> repeated;
    for (std::int64_t i = 0; i < in(1).settled()->toInt(); ++i)
      repeated.insert(repeated.end(), items.begin(), items.end());
    return set(Term::container(Term::Kind::list, std::move(repeated), depth_));
  }
  if (name == "slice" && node.inputs().size() >= 3) {
    const auto size = static_cast<std::int64_t>(items.size());
    const auto given = node.inputs().size() > 3 ? in(3).settled() : std::nullopt;
    // A step beyond the list is as one just beyond it.
    const std::int64_t step = std::clamp(given && given->isInt() ? given->toInt() : 1, -size - 1, size + 1);
    if (step == 0) return false;
    const std::int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;  // as Python cuts
    const auto bound = [&](std::size_t i, std::int64_t otherwise) {
      const auto settled = in(i).settled();
      if (!settled || settled->isNone()) return otherwise;
      const std::int64_t at = settled->toInt();
      return std::clamp(at < 0 ? at + size : at, least, most);
    };
    const std::int64_t begin = bound(1, step < 0 ? most : least), end = bound(2, step < 0 ? least : most);
    std::vector<Term> part;
    for (std::int64_t i = begin; step < 0 ? i > end : i < end; i += step)
      part.push_back(items[static_cast<std::size_t>(i)]);
    return set(Term::container(first.kind, std::move(part), depth_));
  }
  if (changes_first_argument(node)) refuse_change();
  return false;
}

}  // namespace whence::recorder
