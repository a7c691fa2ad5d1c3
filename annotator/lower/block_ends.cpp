#include "annotator/lower/block_ends.h"

#include <algorithm>
#include <utility>

#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::lower {

namespace {

// A tensor that a result may be: the name or memory at which the chain of views made in the block starts.
struct Reach {
  Memory::Guard guard;
  ValueId tensor = none_id;
  bool inside = false;  // allocated in the block
  std::vector<Memory::View> steps;
};

class Finder {
 public:
  Finder(const Program& program, Memory& memory, const Failure& unclear)
      : program_(program), memory_(memory), unclear_(unclear) {}

  BlockEnds find(const std::vector<Argument>& outputs) {
    for (const Argument& output : outputs) {
      const auto* value = output.as<ValueRef>();
      const bool tensor = value != nullptr && may_lie_in_memory(value->id);
      names_.push_back(tensor ? tensor_named(value->id) : none_id);
      const auto first = std::ranges::find(names_, names_.back());
      const bool inside = tensor && !is_outer(names_.back());
      same_as_.push_back(inside && first != names_.end() - 1 ? std::optional(first - names_.begin()) : std::nullopt);
      reached_.push_back(tensor && !same_as_.back() ? reach(value->id) : std::vector<Reach>());
    }
    find_shared();
    for (std::size_t i = 0; i < reached_.size(); ++i) add_targets(i);
    add_suspects();
    return std::move(ends_);
  }

 private:
  struct Shared {
    ValueId memory = none_id;
    std::vector<std::size_t> holders;
    std::optional<std::size_t> through;  // the holder through which the others reach the memory
  };

  bool may_lie_in_memory(ValueId id) const {
    const ValueKind kind = program_.values[id].type.kind;
    return kind == ValueKind::tensor || kind == ValueKind::optional || kind == ValueKind::sequence;
  }
  bool is_outer(ValueId id) const { return memory_.is_defined_outside(id, memory_.depth() - 1); }

  ValueId tensor_named(ValueId name) const {
    ValueId id = memory_.renamed(name);
    for (const Memory::View* at = memory_.view(id); at != nullptr && at->kind == ViewKind::same;
         at = memory_.view(id)) {
      id = at->base;
    }
    return id;
  }

  std::vector<Reach> reach(ValueId name) { return reach_memory(memory_.renamed(name)); }

  // Follows a view to the base as it was when the view was made, even if transpose_(base) renamed the base since.
  std::vector<Reach> reach_memory(ValueId id) {
    if (is_outer(id)) return {{{}, id, false, {}}};
    if (const Memory::View* found = memory_.view(id)) {
      const Memory::View view = *found;  // a copy: joining conditions may move it
      std::vector<Reach> reached = reach_memory(view.base);
      if (view.kind == ViewKind::same) return reached;
      for (Reach& each : reached) each.steps.push_back(view);
      return reached;
    }
    if (const Memory::Choice* found = memory_.choice(id)) return reach_chosen(*found);
    return {{{}, id, true, {}}};
  }

  std::vector<Reach> reach_chosen(const Memory::Choice& found) {
    const Memory::Choice choice = found;
    std::vector<Reach> reached;
    for (std::size_t i = 0; i < choice.of.size(); ++i) {
      const Memory::Guard& guard = choice.of[i].guard;
      std::vector<Reach> through = reach(choice.of[i].tensor);
      for (std::size_t k = 0; k < through.size() && i + 1 < choice.of.size(); ++k) {
        through[k].guard = k + 1 == through.size() ? guard : both(guard, through[k].guard);
      }
      std::ranges::move(through, std::back_inserter(reached));
    }
    return reached;
  }

  Memory::Guard both(const Memory::Guard& one, const Memory::Guard& other) {
    const Argument yes{true}, no{false};
    return {memory_.select(one, memory_.select(other, yes, no), no), true};
  }

  // Finds memory that several results reach. One of them serves the others if it is all of the memory in every case.
  void find_shared() {
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      for (const Reach& each : reached_[i]) {
        if (!each.inside) continue;
        auto known = std::ranges::find(shared_, each.tensor, &Shared::memory);
        if (known == shared_.end()) known = shared_.insert(shared_.end(), Shared{each.tensor, {}, {}});
        if (known->holders.empty() || known->holders.back() != i) known->holders.push_back(i);
      }
    }
    for (Shared& each : shared_) {
      const auto is_all = [&](std::size_t i) { return reached_[i].size() == 1 && reached_[i][0].steps.empty(); };
      const auto found = std::ranges::find_if(each.holders, is_all);
      if (found != each.holders.end()) each.through = *found;
      for (std::size_t k = 1; !each.through && k < each.holders.size(); ++k) {
        for (std::size_t j = 0; j < k; ++j) {
          if (memory_.disjoint(names_[each.holders[j]], names_[each.holders[k]])) continue;
          ends_.unclear.push_back({each.holders[k], each.holders[j], none_id, unclear_});
        }
      }
    }
  }

  void add_targets(std::size_t i) {
    std::vector<Target>& targets = ends_.results.emplace_back();
    if (same_as_[i]) targets.push_back({Target::Kind::same, none_id, *same_as_[i]});
    for (Reach& each : reached_[i]) {
      Target target;
      target.guard = each.guard;
      if (!each.inside) {
        target = {Target::Kind::outside, each.tensor, 0, each.steps, each.guard};
      } else if (const auto through = std::ranges::find(shared_, each.tensor, &Shared::memory)->through;
                 through && *through != i) {
        target = {Target::Kind::shared, none_id, *through, each.steps, each.guard};
      }
      if (!can_be_repeated(target)) {
        ends_.unclear.push_back({i, target.kind == Target::Kind::shared ? std::optional(target.result) : std::nullopt,
                                 target.tensor, unclear_});
        target = {Target::Kind::own, none_id, 0, {}, each.guard};
      }
      const bool repeats =
          memory_.is_repeating(each.tensor) || std::ranges::any_of(each.steps, [](const Memory::View& step) {
            return facts_of(step.node.target).repeats_elements;
          });
      if (repeats && target.kind == Target::Kind::own) ends_.repeating.push_back(i);
      targets.push_back(std::move(target));
    }
    while (targets.size() > 1 && same_target(memory_, targets.back(), targets[targets.size() - 2], memory_.depth())) {
      targets.erase(targets.end() - 2);
    }
  }

  // Returns false for views whose arguments are tensors made in the block, and for chains that grow by one view in each
  // iteration of a loop.
  bool can_be_repeated(Target& target) const {
    bool numbers = true;
    for (std::size_t i = 0; i < target.steps.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        numbers = numbers && target.steps[i].node.outputs != target.steps[k].node.outputs;
      }
    }
    each_step_value(target.steps, [&](ValueId id) {
      numbers = numbers && (is_outer(id) || is_scalar(program_.values[id].type.kind));
    });
    return numbers;
  }

  // Carries uncertain aliasing over to the result: a name that may share its memory in the block may share it
  // afterwards.
  void add_suspects() {
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      for (const Reach& each : reached_[i]) {
        if (!each.inside) continue;
        for (const Memory::Suspect& other : memory_.possible_aliases(each.tensor)) {
          if (is_outer(other.through)) {
            ends_.unclear.push_back({i, std::nullopt, other.through, other.why});
            continue;
          }
          if (is_outer(other.memory)) ends_.unclear.push_back({i, std::nullopt, other.memory, other.why});
          const auto held = std::ranges::find(shared_, other.memory, &Shared::memory);
          for (const std::size_t k : held == shared_.end() ? std::vector<std::size_t>() : held->holders) {
            if (k < i) ends_.unclear.push_back({i, k, none_id, other.why});
          }
        }
      }
    }
  }

  const Program& program_;
  Memory& memory_;
  const Failure& unclear_;
  std::vector<ValueId> names_;                       // indexed by result
  std::vector<std::optional<std::size_t>> same_as_;  // an earlier result that is the same tensor
  std::vector<std::vector<Reach>> reached_;
  std::vector<Shared> shared_;
  BlockEnds ends_;
};

}  // namespace

BlockEnds block_ends(const Program& program, Memory& memory, const std::vector<Argument>& outputs,
                     const Failure& unclear) {
  return Finder(program, memory, unclear).find(outputs);
}

namespace {

// Returns true for equal arguments. Two numbers computed in blocks deeper than `outside` count as equal.
bool same_argument(const Memory& memory, const Argument& one, const Argument& other, int outside) {
  const auto *list = one.as<ArgumentList>(), *others = other.as<ArgumentList>();
  if (list != nullptr && others != nullptr) {
    return std::ranges::equal(
        *list, *others, [&](const Argument& a, const Argument& b) { return same_argument(memory, a, b, outside); });
  }
  const auto is_made_inside = [&](const Argument& argument) {
    const auto* value = argument.as<ValueRef>();
    return value != nullptr && !memory.is_defined_outside(value->id, outside);
  };
  return one == other || (is_made_inside(one) && is_made_inside(other));
}

}  // namespace

bool same_target(const Memory& memory, const Target& one, const Target& other, int outside) {
  if (one.kind != other.kind || one.tensor != other.tensor || one.result != other.result) return false;
  return std::ranges::equal(one.steps, other.steps, [&](const Memory::View& a, const Memory::View& b) {
    return qualified(a.node) == qualified(b.node) && a.output == b.output && a.argument == b.argument &&
           std::ranges::equal(a.node.arguments, b.node.arguments, [&](const NamedArgument& x, const NamedArgument& y) {
             return x.name == y.name && (x.name == a.argument || same_argument(memory, x.value, y.value, outside));
           });
  });
}

}  // namespace whence::lower
