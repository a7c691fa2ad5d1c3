// Lists and dicts that are one object or another, depending on data. In PyTorch a list is one object under all its
// names. A variable that a branch or loop on data sets to one of several lists gets a new list here. If another name
// still reaches one of the original objects, a change under either name would have to show under both. Such changes are
// refused.
#pragma once

#include <array>
#include <map>
#include <set>

#include "recorder/script/call.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

using Items = std::shared_ptr<std::vector<Term>>;

// True for a term that a program can change under one name and read under another.
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
  // `objects`: null where the container stands for no object.
  void note(const Items& container, const std::array<Items, 2>& objects) { objects_[container] = objects; }
  // Refuses, from here on, changes of containers in sight that are one object in one of the two cases.
  void refuse_changes(Changes& changes, const std::set<Items>& in_sight) const;

 private:
  std::map<Items, std::array<Items, 2>> objects_;
};

}  // namespace whence::recorder::script
