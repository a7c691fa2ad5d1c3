#include "recorder/script/input_terms.h"

#include <sstream>

#include "recorder/base/torch_error.h"

namespace whence::recorder::script {

namespace {

class InputTerms {
 public:
  InputTerms(Recording& recording, Quantized& quantized) : recording_(recording), quantized_(quantized) {}

  Term term(const PerRun<const c10::IValue*>& values, const c10::TypePtr& type, const std::string& name) {
    const c10::IValue* first = values[0];
    if (first == nullptr || first->isTensor()) return tensor(values, type, name);
    if (first->isTuple()) {
      return sequence(Term::Kind::tuple, values, name, first->toTupleRef().elements().size(),
                      [](const c10::IValue& all, std::size_t i) { return all.toTupleRef().elements()[i]; });
    }
    if (first->isTensorList() || first->isList()) {
      return sequence(Term::Kind::list, values, name, first->toListRef().size(),
                      [](const c10::IValue& all, std::size_t i) { return c10::IValue(all.toListRef()[i]); });
    }
    if (first->isGenericDict()) return dict(values, name);
    if (first->isScalar() || first->isString()) note_constant(*first, name);
    return Term::literal(*first);
  }

 private:
  Term tensor(const PerRun<const c10::IValue*>& values, const c10::TypePtr& type, const std::string& name) {
    RunValues seen;
    for (int run = 0; run < max_runs; ++run) {
      if (values[run] != nullptr) seen[run] = *values[run];
    }
    Type seen_type = recording_.values.type_of(seen, type);
    const auto index = static_cast<std::int32_t>(recording_.program.inputs.size());
    const ValueId id = recording_.values.add(name, ValueSource::input, std::move(seen_type), index);
    recording_.program.inputs.push_back({name, id});
    Term term = Term::of_value(id, std::move(seen));
    return is_quantized(term.seen[0]) ? quantized_.input(std::move(term), name) : term;
  }

  // Returns the term of one element of a container; `part_of` reads it from the container of each run.
  Term part(const PerRun<const c10::IValue*>& values, const std::string& name, const auto& part_of) {
    PerRun<c10::IValue> parts;
    PerRun<const c10::IValue*> pointers{};
    for (int run = 0; run < max_runs; ++run) {
      if (values[run] == nullptr) continue;
      parts[run] = part_of(*values[run]);
      pointers[run] = &parts[run];
    }
    return term(pointers, parts[0].type(), name);
  }

  Term sequence(Term::Kind kind, const PerRun<const c10::IValue*>& values, const std::string& name, std::size_t size,
                const auto& element) {
    std::vector<Term> items;
    for (std::size_t i = 0; i < size; ++i) {
      items.push_back(
          part(values, name + "." + std::to_string(i), [&](const c10::IValue& all) { return element(all, i); }));
    }
    return Term::container(kind, std::move(items));
  }

  Term dict(const PerRun<const c10::IValue*>& values, const std::string& name) {
    std::vector<Term> items;
    for (const auto& entry : values[0]->toGenericDict()) {
      const c10::IValue& key = entry.key();
      if (key.isTensor()) {
        throw Error(Code::unsupported_feature, "input '" + name + "' is a dict whose keys are tensors",
                    "use strings or numbers as keys", {.stage = "run"});
      }
      const std::string key_name = key.isString() ? key.toStringRef() : std::to_string(items.size() / 2);
      items.push_back(Term::literal(key));
      items.push_back(
          part(values, name + "." + key_name, [&](const c10::IValue& all) { return all.toGenericDict().at(key); }));
    }
    return Term::container(Term::Kind::dict, std::move(items));
  }

  void note_constant(const c10::IValue& value, const std::string& name) {
    std::ostringstream text;
    text << value;
    recording_.writer.notes.push_back(warning(Code::unsupported_feature,
                                              "input '" + name + "' is not a tensor: it is stored as the constant " +
                                                  text.str() + ", and is not an input of the graph",
                                              "let forward take a tensor if the value is to change between runs",
                                              {.stage = "read"}));
  }

  Recording& recording_;
  Quantized& quantized_;
};

}  // namespace

Term input_term(Recording& recording, Quantized& quantized, const PerRun<const c10::IValue*>& values,
                const c10::TypePtr& type, const std::string& name) {
  return InputTerms(recording, quantized).term(values, type, name);
}

}  // namespace whence::recorder::script
