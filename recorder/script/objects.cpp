#include "recorder/script/objects.h"

#include "recorder/program/finish.h"
#include "recorder/script/restore.h"
#include "recorder/script/shared_containers.h"
#include "schema/lost_writes.h"
#include "schema/module_path.h"

namespace whence::recorder::script {
namespace {

// Copies a tensor and its mark as a traced number, which affects the dtype of operations on it.
at::Tensor copied_constant(const at::Tensor& tensor) {
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace

Term Objects::create(const Step& step) {
  const auto type = step.node.output()->type()->expect<c10::ClassType>();
  auto object = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), type->numAttributes());
  made_at_[object.get()] = recording_.runs.depth;
  return Term::of_object(std::move(object));
}

void Objects::set_attribute(const Step& step) {
  const Term& object = step.in(0);
  const std::string& name = step.node.s(c10::attr::name);
  const auto made = made_at_.find(object.object.get());
  const bool archived = made == made_at_.end();
  const std::pair key(object.object.get(), name);
  if (!recording_.attributes.contains(key)) {
    const Term before = attribute(object, name);
    const int depth = archived ? 0 : made->second;
    recording_.attributes.insert_or_assign(key, Term::container(Term::Kind::tuple, {before}, depth));
  }
  const Term changed = recording_.attributes.at(key);
  NodeWriter& writer = recording_.writer;
  if (archived) writer.notes.push_back(lost_write(WrittenTo::attribute, name, writer.place(step)));
  recording_.changes.note(changed, c10::TupleType::create({step.type(1)}));
  changed.items->front() = step.in(1);
}

Term Objects::attribute(const Term& object, const std::string& name) {
  if (object.kind != Term::Kind::object) return {};
  const auto changed = recording_.attributes.find({object.object.get(), name});
  if (changed != recording_.attributes.end()) return changed->second.items->front();
  const c10::IValue value = object.object->getAttr(name);
  if (value.isTensor() && value.toTensor().defined()) {
    const ParameterId id = tree_.parameter_of(object.object.get(), name);
    if (id != none_id) return parameter(id, value.toTensor());
  }
  const ModuleId module = module_of(object);
  const std::string path = module == none_id ? "" : recording_.program.modules[module].path;
  Restore depth(recording_.runs.depth);
  recording_.runs.depth = 0;
  const std::string qualified = joined_path(path, name);
  Term made = from_host(value, qualified);
  const bool archived = !made_at_.contains(object.object.get());
  each_container(made, {}, [&](const Path&, const Items& items) {
    if (archived) recording_.changes.note_attribute(items, qualified);
  });
  // Every reader of the attribute shares the list or dict, so that all see its changes.
  if (made.items)
    recording_.attributes.emplace(std::pair(object.object.get(), name), Term::container(Term::Kind::tuple, {made}));
  return made;
}

Term Objects::parameter(ParameterId id, const at::Tensor& tensor) {
  const auto made = parameters_.find(id);
  if (made != parameters_.end()) return made->second;
  const Parameter& row = recording_.program.parameters[id];
  // Programs write into buffers, but the archive's contents are exported, so each run gets its own copy. Buffers are
  // folded (position ids, masks); parameters keep their names and stay parameters.
  const bool is_parameter = row.kind == ParameterKind::parameter;
  RunValues seen = recording_.runs.each([&](int) { return c10::IValue(is_parameter ? tensor : tensor.clone()); });
  Type type = recording_.values.type_of(seen, c10::TensorType::get());
  const ValueId value = recording_.values.add(row.name, ValueSource::parameter, std::move(type), id.number());
  Term term = Term::of_value(value, std::move(seen));
  term.known = recording_.runs.count > 0 && !is_parameter;
  return parameters_.emplace(id, std::move(term)).first->second;
}

Term Objects::constant(const at::Tensor& tensor, const std::string& name) {
  const auto made = constants_.find(tensor.unsafeGetTensorImpl());
  if (made != constants_.end()) return made->second;
  auto& constants = recording_.program.constants;
  RunValues seen =
      recording_.runs.each([&](int run) { return c10::IValue(run == 0 ? tensor : copied_constant(tensor)); });
  seen[0] = tensor;  // set even without runs
  Type type = recording_.values.type_of(seen, c10::TensorType::get());
  const auto index = static_cast<std::int32_t>(constants.size());
  Term term = Term::of_value(recording_.values.add(name, ValueSource::constant, std::move(type), index), seen);
  term.known = true;
  Constant row;
  row.name = name;
  row.data = program::copied_data(tensor);
  constants.push_back(std::move(row));
  return constants_.emplace(tensor.unsafeGetTensorImpl(), std::move(term)).first->second;
}

Term Objects::from_host(const c10::IValue& value, const std::string& name) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return {};
    const ParameterId id = tree_.parameter_of(value.toTensor());
    return id == none_id ? constant(value.toTensor(), name) : parameter(id, value.toTensor());
  }
  if (value.isObject()) return Term::of_object(value.toObject());
  std::vector<Term> items;
  const auto container = [&](Term::Kind kind) {
    return Term::container(kind, std::move(items), recording_.runs.depth);
  };
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) items.push_back(from_host(element, name));
    return container(Term::Kind::tuple);
  }
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) items.push_back(from_host(element, name));
    return container(Term::Kind::list);
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      items.push_back(Term::literal(entry.key()));
      items.push_back(from_host(entry.value(), name));
    }
    return container(Term::Kind::dict);
  }
  return Term::literal(value);
}

}  // namespace whence::recorder::script
