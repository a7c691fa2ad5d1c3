// Tracks lists and dicts that are one of several objects, depending on data. In PyTorch a list is one object under all
// its names. A variable that a data-dependent branch or loop sets to one of several lists gets a new list here. If
// another name still reaches one of the original objects, a change under either name would have to show under both.
// Such changes are refused.
#pragma once

#include <array>
#include <map>
#include <set>

#include "recorder/script/call.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

using Items = std::shared_ptr<std::vector<Term>>;

// Returns true for a term that a program can change under one name and read under another.
inline bool is_list_or_dict(const Term& term) { return term.kind == Term::Kind::list || term.kind == Term::Kind::dict; }

// Calls `use` with each list and dict in the term at any depth, and with its path: the positions that lead to it. The
// content of an Optional has the path of the Optional.
using Path = std::vector<std::size_t>;
void each_container(const Term& term, const Path& path,
                    const std::function<void(const Path& path, const Items& items)>& use);

// Returns the lists and dicts that the program can reach after `step`, a branch or loop; with in_body, also those that
// it can reach in the body of the loop.
enum class Reach : std::uint8_t { after, in_body };
std::set<Items> reachable_containers(const Recording& recording, const Step& step, Reach reach);

// New containers, with the two objects that each replaces: those of the two sides of a branch, or those of the first
// iteration and of later iterations of a loop.
class Replacements {
 public:
  bool empty() const { return objects_.empty(); }
  // An entry of `objects` is null if the container replaces no object in that case.
  void note(const Items& container, const std::array<Items, 2>& objects) { objects_[container] = objects; }
  // From here on, refuses changes of reachable containers that are the same object in one of the two cases.
  void refuse_changes(Changes& changes, const std::set<Items>& reachable) const;

 private:
  std::map<Items, std::array<Items, 2>> objects_;
};

}  // namespace whence::recorder::script
