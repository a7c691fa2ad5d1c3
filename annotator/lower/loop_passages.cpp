#include "annotator/lower/loop_passages.h"

#include <algorithm>
#include <unordered_map>

#include "annotator/lower/views.h"

namespace whence::lower {

namespace {

class Passages {
 public:
  Passages(const Program& program, const std::vector<PassedOn>& variables, const std::unordered_set<ValueId>& inside,
           const MayMeet& may_meet)
      : program_(program), variables_(variables), inside_(inside), may_meet_(may_meet), gives_to_(variables.size()) {
    found_.outside.resize(variables.size());
  }

  LoopPassages find() {
    note_roots();
    pass_on_outside();
    note_shared();
    return std::move(found_);
  }

 private:
  void note_roots() {
    std::unordered_map<ValueId, std::size_t> position;
    for (std::size_t i = 0; i < variables_.size(); ++i) position.emplace(variables_[i].variable, i);
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (const Root& root : variables_[i].starts) add_outside(i, value_outside(root));
      for (const Root& root : variables_[i].left) {
        const auto variable = position.find(root.memory);
        if (variable != position.end()) gives_to_[variable->second].push_back(i);
        if (!inside_.contains(root.memory)) add_outside(i, value_outside(root));
      }
    }
  }

  // The part, where it was made outside.
  ValueId value_outside(const Root& root) const {
    return root.part == none_id || inside_.contains(root.part) ? root.memory : root.part;
  }

  bool add_outside(std::size_t variable, ValueId value) {
    auto& values = found_.outside[variable];
    if (std::ranges::find(values, value) != values.end()) return false;
    values.push_back(value);
    return true;
  }

  void pass_on_outside() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t from = 0; from < variables_.size(); ++from) {
        for (const std::size_t to : gives_to_[from]) {
          for (const ValueId value : std::vector(found_.outside[from])) more |= add_outside(to, value);
        }
      }
    }
  }

  // False for different parts of one chunk, split or unbind, and for ranges that do not meet.
  bool meet(const Root& one, const Root& other) const {
    if (one.memory != other.memory) {
      const bool outside = !inside_.contains(one.memory) && !inside_.contains(other.memory);
      return outside && may_meet_(value_outside(one), value_outside(other));
    }
    if (one.made == nullptr || other.made == nullptr) return true;
    return one.made == other.made ? one.part == other.part : !takes_other_range(program_, *one.made, *other.made);
  }

  bool meet(const std::vector<Root>& some, const std::vector<Root>& others) const {
    return std::ranges::any_of(some, [&](const Root& root) {
      return std::ranges::any_of(others, [&](const Root& other) { return meet(root, other); });
    });
  }

  void share(std::size_t one, std::size_t other) {
    const std::pair<std::size_t, std::size_t> pair = std::minmax(one, other);
    if (one != other && std::ranges::find(found_.shared, pair) == found_.shared.end()) found_.shared.push_back(pair);
  }

  void note_shared() {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      for (std::size_t j = i + 1; j < variables_.size(); ++j) {
        const PassedOn &one = variables_[i], &other = variables_[j];
        if (meet(one.starts, other.starts) || meet(one.left, other.left)) share(i, j);
      }
    }
    for (std::size_t at = 0; at < found_.shared.size(); ++at) {
      const auto [one, other] = found_.shared[at];
      for (const std::size_t i : gives_to_[one]) {
        for (const std::size_t j : gives_to_[other]) share(i, j);
      }
    }
  }

  const Program& program_;
  const std::vector<PassedOn>& variables_;
  const std::unordered_set<ValueId>& inside_;
  const MayMeet& may_meet_;
  std::vector<std::vector<std::size_t>> gives_to_;  // by variable, those that are it in the next iteration
  LoopPassages found_;
};

}  // namespace

LoopPassages loop_passages(const Program& program, const std::vector<PassedOn>& variables,
                           const std::unordered_set<ValueId>& inside, const MayMeet& may_meet) {
  return Passages(program, variables, inside, may_meet).find();
}

}  // namespace whence::lower
