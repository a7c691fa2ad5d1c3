#include "recorder/script/shared_containers.h"

#include "recorder/script/liveness.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

void each_container(const Term& term, const Path& path,
                    const std::function<void(const Path& path, const Items& items)>& use) {
  if (!term.items) return;
  if (is_list_or_dict(term)) use(path, term.items);
  if (term.is_optional()) return each_container(term.content(), path, use);
  Path inner = path;
  inner.push_back(0);
  for (const Term& item : *term.items) {
    each_container(item, inner, use);
    ++inner.back();
  }
}

std::set<Items> reachable_containers(const Recording& recording, const Step& step, Reach reach) {
  std::set<Items> found;
  const auto add = [&](const Term& term) {
    each_container(term, {}, [&](const Path&, const Items& items) { found.insert(items); });
  };
  for (const Call* call : recording.running) {
    const bool here = call == &step.call;
    for (const auto& [value, term] : call->env) {
      if (!term.items) continue;
      const jit::Node& at = here ? step.node : *call->at;
      if (is_read_after(*value, at) || (here && reach == Reach::in_body && is_read_in(*value, at))) add(term);
    }
  }
  for (const auto& [name, attribute] : recording.attributes) add(attribute);
  return found;
}

void Replacements::refuse_changes(Changes& changes, const std::set<Items>& reachable) const {
  for (std::size_t way = 0; way < 2; ++way) {
    std::map<Items, std::vector<Items>> names;
    for (const Items& container : reachable) {
      const auto replaced = objects_.find(container);
      const Items& object = replaced == objects_.end() ? container : replaced->second[way];
      if (object) names[object].push_back(container);
    }
    for (const auto& [object, containers] : names) {
      if (containers.size() == 1 && !changes.is_ambiguous(object)) continue;
      for (const Items& container : containers) changes.mark_ambiguous(container);
    }
  }
}

}  // namespace whence::recorder::script
