// ModuleTree: modules by qualified name, each below its parent, with a row of values for each. Views that count by
// module use it with their own type of rows.
//
//   struct Row : ModulePlace { std::int64_t nodes = 0; };
//   ModuleTree<Row> tree;
//   for (std::size_t row : tree.around({"encoder.layer.0", "pooler"})) ++tree.rows[row].nodes;   // root included, once
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/flat_map.h"
#include "schema/module_path.h"
#include "schema/parse_number.h"

namespace whence::origin {

struct ModulePlace {
  std::string path;  // "" is the root
  int level = 0;
  std::optional<std::size_t> parent;  // row; nullopt for the root
  std::vector<std::size_t> children;  // rows
};

// The order of siblings. Siblings with numbers as names, as in a list, are always ordered by number.
enum class Siblings { as_added, by_name };

// Returns the number of a module in its list: 11 for "encoder.layer.11"; nullopt for other names.
inline std::optional<std::int64_t> number_in_list(std::string_view path) {
  return parse_number<std::int64_t>(path.substr(path.rfind('.') + 1));
}

template <std::derived_from<ModulePlace> Row>
struct ModuleTree {
  std::vector<Row> rows;  // the root is first

  ModuleTree() { add(""); }

  // Returns the row of a module; adds it and its ancestors if they are new.
  std::size_t add(std::string_view path) {
    if (const auto known = find(path)) return *known;
    std::optional<std::size_t> parent;
    if (!path.empty()) parent = add(module_around(path));
    const std::size_t index = rows.size();
    Row& row = rows.emplace_back();
    row.path = path;
    row.parent = parent;
    row.level = parent ? rows[*parent].level + 1 : 0;
    if (parent) rows[*parent].children.push_back(index);
    by_path_.emplace(path, index);
    return index;
  }

  // Adds another name for a module.
  void add_alias(std::string_view path, std::size_t row) { by_path_.emplace(path, row); }

  std::optional<std::size_t> find(std::string_view path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? std::nullopt : std::optional(found->second);
  }

  // Calls visit(row) for a module and its ancestors, from the inside out.
  template <class Visit>
  void upwards(std::size_t row, const Visit& visit) {
    for (std::optional<std::size_t> at = row; at; at = rows[*at].parent) visit(rows[*at]);
  }

  // Returns the distinct rows of the modules and their ancestors; adds new rows.
  template <class Paths>
  std::set<std::size_t> around(const Paths& paths) {
    std::set<std::size_t> around;
    for (const std::string& path : paths) {
      for (std::optional<std::size_t> at = add(path); at && around.insert(*at).second;) at = rows[*at].parent;
    }
    return around;
  }

  // Orders rows depth first, a module before its children. The numbers of rows change.
  void order_depth_first(Siblings siblings = Siblings::as_added) {
    std::vector<std::size_t> order, moved(rows.size());
    append(0, siblings, order);
    std::vector<Row> ordered;
    for (const std::size_t row : order) {
      moved[row] = ordered.size();
      ordered.push_back(std::move(rows[row]));
    }
    for (Row& row : ordered) {
      if (row.parent) row.parent = moved[*row.parent];
      for (std::size_t& child : row.children) child = moved[child];
    }
    for (auto known = by_path_.begin(); known != by_path_.end(); ++known) known.value() = moved[known->second];
    rows = std::move(ordered);
  }

 private:
  void append(std::size_t row, Siblings siblings, std::vector<std::size_t>& order) {
    order.push_back(row);
    std::vector<std::size_t>& children = rows[row].children;
    if (siblings == Siblings::by_name) {
      std::ranges::sort(children, {}, [&](std::size_t child) -> const std::string& { return rows[child].path; });
    }
    order_numbers(children);
    for (const std::size_t child : children) append(child, siblings, order);
  }

  // Sorts siblings with numbers as names among their positions.
  void order_numbers(std::vector<std::size_t>& children) const {
    std::vector<std::size_t> places;
    std::vector<std::pair<std::int64_t, std::size_t>> numbered;
    for (std::size_t place = 0; place < children.size(); ++place) {
      const auto number = number_in_list(rows[children[place]].path);
      if (!number) continue;
      places.push_back(place);
      numbered.emplace_back(*number, children[place]);
    }
    std::ranges::sort(numbered);
    for (std::size_t i = 0; i < places.size(); ++i) children[places[i]] = numbered[i].second;
  }

  FlatMap<std::string, std::size_t> by_path_;
};

}  // namespace whence::origin
