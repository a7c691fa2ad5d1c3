#include "recorder/script/container_methods.h"

#include <algorithm>

#include "recorder/base/torch_error.h"

namespace whence::recorder::script {

namespace {

using Terms = std::vector<Term>;

// A call of a method.
struct Method {
  const Step& step;
  const Term& self;
  int depth;  // number of data-dependent blocks around it, for new containers

  Terms& items() const { return *self.items; }
  std::int64_t size() const { return static_cast<std::int64_t>(self.items->size()); }
  Terms::iterator at(std::size_t i) const { return self.items->begin() + static_cast<std::ptrdiff_t>(i); }
  const Term& in(std::size_t i) const { return step.in(i); }
  Term list(Terms elements) const { return Term::container(Term::Kind::list, std::move(elements), depth); }
};

// The result of a method; empty if the node turns out to be an operation.
using Result = std::optional<Term>;

bool same_key(const Term& key, const c10::IValue& other) {
  const auto settled = key.settled();
  return settled && program::same_literal(*settled, other);
}

// ---- dicts: the items are key, value, key, value, ...

// Returns the position of the key; the number of items if the dict lacks it.
std::size_t key_position(const Method& m, const Term& key) {
  const auto settled = key.settled();
  if (!settled) refuse("a dict is read with a key that depends on the input", "use constant keys");
  std::size_t i = 0;
  while (i < m.items().size() && !same_key(m.items()[i], *settled)) i += 2;
  return i;
}

std::size_t present_key(const Method& m, const char* use) {
  const std::size_t at = key_position(m, m.in(1));
  if (at == m.items().size()) {
    refuse(std::string("a dict lacks the key that is ") + use, "check the model's inputs");
  }
  return at;
}

// Returns every second item, from `first` on.
Result every_second(const Method& m, std::size_t first) {
  Terms elements;
  for (std::size_t i = first; i < m.items().size(); i += 2) elements.push_back(m.items()[i]);
  return m.list(std::move(elements));
}

Result pairs(const Method& m) {
  Terms elements;
  for (std::size_t i = 0; i + 1 < m.items().size(); i += 2) {
    elements.push_back(Term::container(Term::Kind::tuple, {m.items()[i], m.items()[i + 1]}, m.depth));
  }
  return m.list(std::move(elements));
}

Result get(const Method& m) {
  const std::size_t at = key_position(m, m.in(1));
  if (at != m.items().size()) return m.items()[at + 1];
  return m.step.count() > 2 ? m.in(2) : Term();
}

void set(const Method& m, const Term& key, const Term& value) {
  const std::size_t at = key_position(m, key);
  if (at == m.items().size()) m.items().insert(m.items().end(), {key, Term()});
  m.items()[at + 1] = value;
}

Result set_entry(const Method& m) { return set(m, Term(m.in(1)), Term(m.in(2))), Term(); }

Result pop_entry(const Method& m) {
  if (m.step.count() > 2 && key_position(m, m.in(1)) == m.items().size()) return m.in(2);
  const std::size_t at = present_key(m, "taken out");
  Term popped = m.items()[at + 1];
  m.items().erase(m.at(at), m.at(at + 2));
  return popped;
}

Result set_default(const Method& m) {
  const std::size_t at = key_position(m, m.in(1));
  return at == m.items().size() ? (set_entry(m), m.in(2)) : m.items()[at + 1];
}

Result update(const Method& m) {
  const Terms others = *m.in(1).items;
  for (std::size_t i = 0; i + 1 < others.size(); i += 2) set(m, others[i], others[i + 1]);
  return Term();
}

Result delete_entry(const Method& m) {
  const std::size_t at = present_key(m, "deleted");
  m.items().erase(m.at(at), m.at(at + 2));
  return Term();
}

// ---- lists

Result contains(const Method& m) {
  const auto value = m.in(1).settled();
  if (!value) return std::nullopt;
  if (std::ranges::any_of(m.items(), [&](const Term& item) { return same_key(item, *value); })) {
    return Term::literal(true);
  }
  const auto settled = [](const Term& item) { return item.settled().has_value(); };
  return std::ranges::all_of(m.items(), settled) ? Result(Term::literal(false)) : std::nullopt;
}

Terms joined(const Terms& first, const Terms& second) {
  Terms all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

// `+=` returns the list, `extend` returns nothing. A tensor added to a list of numbers is an operation.
Result extend(const Method& m) {
  if (!m.in(1).is_container()) return std::nullopt;
  m.items() = joined(m.items(), *m.in(1).items);
  return m.step.name() == "add_" ? m.self : Term();
}

Result add(const Method& m) {
  if (m.step.count() != 2 || !m.in(1).is_container()) return std::nullopt;
  return m.list(joined(m.items(), *m.in(1).items));
}

Result multiply(const Method& m) {
  const auto times = m.in(1).settled();
  if (!times) refuse("how often a list is repeated depends on data", "make a tensor with torch.full or expand");
  if (!times->isInt()) return std::nullopt;
  Terms repeated;
  for (std::int64_t i = 0; i < times->toInt(); ++i) {
    repeated.insert(repeated.end(), m.items().begin(), m.items().end());
  }
  return m.list(std::move(repeated));
}

Result insert(const Method& m) {
  const auto index = m.in(1).settled();
  if (!index) return std::nullopt;
  const std::int64_t at = index->toInt() < 0 ? index->toInt() + m.size() : index->toInt();
  m.items().insert(m.items().begin() + std::clamp<std::int64_t>(at, 0, m.size()), m.in(2));
  return Term();
}

// dict([(key, value), ...])
Result dict_of_pairs(const Method& m) {
  const Term dict = Term::container(Term::Kind::dict, {}, m.depth);
  for (const Term& pair : m.items()) {
    if (pair.kind != Term::Kind::tuple || pair.items->size() != 2) return std::nullopt;
    set({m.step, dict, m.depth}, (*pair.items)[0], (*pair.items)[1]);
  }
  return dict;
}

Result copy_of_dict(const Method& m) { return Term::container(Term::Kind::dict, m.items(), m.depth); }

Result pop(const Method& m) {
  const std::size_t at = position_in(m.self, m.step.count() > 1 ? m.in(1) : Term::literal(-1));
  Term popped = m.items()[at];
  m.items().erase(m.at(at));
  return popped;
}

// Slices as Python does; a step longer than the list has the effect of one that is just longer.
Result slice(const Method& m) {
  const auto settled = [&](std::size_t i) {
    const auto value = (i < m.step.count() ? m.in(i) : Term()).settled();
    if (!value) refuse("a list is sliced at an index that depends on the input", "slice it at constant indices");
    return *value;
  };
  const c10::IValue first = settled(1), last = settled(2), stride = settled(3);
  if (m.step.count() < 3) return std::nullopt;
  const std::int64_t step = std::clamp(stride.isInt() ? stride.toInt() : 1, -m.size() - 1, m.size() + 1);
  if (step == 0) return std::nullopt;
  const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? m.size() - 1 : m.size();
  const auto bound = [&](const c10::IValue& place, std::int64_t otherwise) {
    if (place.isNone()) return otherwise;
    return std::clamp(place.toInt() < 0 ? place.toInt() + m.size() : place.toInt(), low, high);
  };
  const std::int64_t begin = bound(first, step < 0 ? high : low), end = bound(last, step < 0 ? low : high);
  Terms part;
  for (std::int64_t i = begin; step < 0 ? i > end : i < end; i += step) part.push_back(m.items()[i]);
  return Term::container(m.self.kind, std::move(part), m.depth);
}

using Apply = Result (*)(const Method&);
using Table = std::unordered_map<std::string, Apply>;

// Returns the methods of lists and tuples. TorchScript does not call a method that changes a list on a tuple.
const Table& list_methods() {
  static const Table table = {
      {"len", [](const Method& m) -> Result { return Term::literal(m.size()); }},
      {"__getitem__", [](const Method& m) -> Result { return m.items()[position_in(m.self, m.in(1))]; }},
      {"__contains__", contains},
      {"append", [](const Method& m) -> Result { return m.items().push_back(Term(m.in(1))), m.self; }},
      {"_set_item",
       [](const Method& m) -> Result { return m.items()[position_in(m.self, m.in(1))] = m.in(2), m.self; }},
      {"extend", extend},
      {"add_", extend},
      {"insert", insert},
      {"pop", pop},
      {"Delete", [](const Method& m) -> Result { return m.items().erase(m.at(position_in(m.self, m.in(1)))), Term(); }},
      {"clear", [](const Method& m) -> Result { return m.items().clear(), Term(); }},
      {"reverse", [](const Method& m) -> Result { return std::ranges::reverse(m.items()), Term(); }},
      {"list", [](const Method& m) -> Result { return m.list(m.items()); }},
      {"copy", [](const Method& m) -> Result { return m.list(m.items()); }},
      {"add", add},
      {"mul", multiply},
      {"slice", slice},
      {"dict", dict_of_pairs},
  };
  return table;
}

const Table& dict_methods() {
  static const Table table = {
      {"len", [](const Method& m) -> Result { return Term::literal(m.size() / 2); }},
      {"__getitem__", [](const Method& m) -> Result { return m.items()[present_key(m, "read") + 1]; }},
      {"__contains__",
       [](const Method& m) -> Result { return Term::literal(key_position(m, m.in(1)) != m.items().size()); }},
      {"keys", [](const Method& m) { return every_second(m, 0); }},
      {"values", [](const Method& m) { return every_second(m, 1); }},
      {"items", pairs},
      {"get", get},
      {"copy", copy_of_dict},
      {"dict", copy_of_dict},
      {"pop", pop_entry},
      {"setdefault", set_default},
      {"update", update},
      {"clear", [](const Method& m) -> Result { return m.items().clear(), Term(); }},
      {"_set_item", set_entry},
      {"Delete", delete_entry},
  };
  return table;
}

}  // namespace

std::size_t position_in(const Term& container, const Term& index) {
  if (!container.is_container()) {
    refuse("the tuple or list that is read differs between the branches of a condition",
           "return tensors from both branches");
  }
  const auto settled = index.settled();
  if (!settled || !settled->isInt()) {
    refuse("a list of modules or tensors is indexed with a number that depends on the input",
           "stack the tensors and use index_select");
  }
  const auto size = static_cast<std::int64_t>(container.items->size());
  const std::int64_t at = settled->toInt() < 0 ? settled->toInt() + size : settled->toInt();
  if (at < 0 || at >= size) {
    refuse("list index " + std::to_string(settled->toInt()) + " is out of range", "check the model");
  }
  return static_cast<std::size_t>(at);
}

bool carry_out_method(Recording& recording, const Step& step) {
  const Term self = step.in(0);
  if (!self.is_container()) return false;
  const bool changes = program::changes_first_argument(step.node);
  if (changes) recording.note_change(self, step);
  const Table& table = self.kind == Term::Kind::dict ? dict_methods() : list_methods();
  const auto row = table.find(step.name());
  Result result;
  if (row != table.end()) result = row->second({step, self, recording.runs.depth});
  if (!result && changes) {
    refuse("a list or dict cannot be changed by '" + step.name() + "'", "build a new one instead");
  }
  if (result) step.set_output(std::move(*result));
  return result.has_value();
}

}  // namespace whence::recorder::script
