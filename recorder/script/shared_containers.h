// Lists and dicts that control flow on data brings together. In PyTorch a list is one object under all its names. A
// branch or loop on data makes a new one here for each that is one object or another, as the data has it; where another
// name still reaches one of these objects, a change under either name would have to show under both. Such changes are
// refused.
#pragma once

#include <array>
#include <map>
#include <set>

#include "recorder/script/call.h"
#include "recorder/script/recording.h"

namespace whence::recorder {

using Items = std::shared_ptr<std::vector<Term>>;

// True for what a program can change under one name and read under another.
inline bool is_list_or_dict(const Term& term) { return term.kind == Term::Kind::list || term.kind == Term::Kind::dict; }

// Calls `use` with each list and dict in the term at any depth, and with its path: the positions that lead to it. What
// an Optional holds has the path of the Optional.
using Path = std::vector<std::size_t>;
void each_container(const Term& term, const Path& path,
                    const std::function<void(const Path& path, const Items& items)>& use);

// The lists and dicts that the program reaches after `step`, a branch or loop, or from within its iterations.
enum class Sight : std::uint8_t { after, in_body };
std::set<Items> containers_in_sight(const Recording& recording, const Step& step, Sight sight);

// New containers, and the objects that they stand for: after a branch those of either side, in a loop those of the
// first iteration and of later ones.
class StandIns {
 public:
  bool empty() const { return objects_.empty(); }
  // `objects` is null where the container stands for nothing.
  void note(const Items& container, const std::array<Items, 2>& objects) { objects_[container] = objects; }
  // Refuses, from here on, changes of containers in sight that are one object in one of the two cases.
  void refuse_changes(Changes& changes, const std::set<Items>& in_sight) const;

 private:
  std::map<Items, std::array<Items, 2>> objects_;
};

}  // namespace whence::recorder
