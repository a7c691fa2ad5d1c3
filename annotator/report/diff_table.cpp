#include "annotator/report/diff_table.h"

#include <algorithm>
#include <numeric>

#include "schema/flat_map.h"

namespace whence::report {

using view::Change;
using view::Comparison;
using view::ModuleDiff;

namespace {

constexpr std::array<std::string_view, row_state_count> row_state_words = {
    "equal", "other shape", "renamed", "moved", "changed", "replaced", "fused", "added", "removed"};
constexpr std::array<std::string_view, module_state_count> module_state_words = {"equal", "changed", "fused",
                                                                                 "moved", "added",   "removed"};
constexpr std::size_t elsewhere_shown = 3;

RowState state_of(Change change) {
  switch (change) {
    case Change::added:
      return RowState::added;
    case Change::removed:
      return RowState::removed;
    case Change::fused:
      return RowState::fused;
    case Change::replaced:
      return RowState::replaced;
    case Change::changed:
      return RowState::changed;
    case Change::renamed:
      return RowState::renamed;
    case Change::moved:
      break;
  }
  return RowState::moved;
}

bool same_shapes(const onnx_file::OnnxNode& a, const onnx_file::OnnxNode& b, const functions::ValueShapes& shapes_a,
                 const functions::ValueShapes& shapes_b) {
  for (std::size_t i = 0; i < std::min(a.outputs.size(), b.outputs.size()); ++i) {
    const auto one = shapes_a.find(a.outputs[i]), other = shapes_b.find(b.outputs[i]);
    if (one != shapes_a.end() && other != shapes_b.end() && one->second->text != other->second->text) return false;
  }
  return true;
}

class TableMaker {
 public:
  TableMaker(const Comparison& comparison, const functions::ValueShapes& shapes_a,
             const functions::ValueShapes& shapes_b)
      : comparison_(comparison), shapes_a_(shapes_a), shapes_b_(shapes_b) {
    const std::vector<ModuleDiff>& modules = comparison.diff.modules;
    for (std::size_t at = 0; at < modules.size(); ++at) {
      if (modules[at].path) module_of_path_.emplace(*modules[at].path, at);
    }
  }

  DiffTable make() {
    add_rows();
    set_states();
    add_modules();
    for (const DiffRow& row : table_.rows) {
      ++table_.states[static_cast<std::size_t>(row.state)];
      for (std::optional<std::size_t> at = row.module() ? row.module() : without_module(); at;
           at = table_.modules[*at].parent) {
        ++table_.modules[*at].states[static_cast<std::size_t>(row.state)];
      }
    }
    count_counterparts();
    for (std::size_t at = 0; at < table_.modules.size(); ++at) set_module_state(at);
    add_elsewhere();
    return std::move(table_);
  }

 private:
  // The numbers of a module's nodes of one file, at and below it.
  struct Nodes {
    std::int64_t all = 0, with_counterpart = 0, fused = 0;
  };

  // Merges both files' orders: a removed node follows the node before it, a replaced one is before its replacement.
  void add_rows() {
    const std::size_t count_a = comparison_.a.size(), count_b = comparison_.b.size();
    std::vector<std::optional<std::size_t>> pair_of_a(count_a), pair_of_b(count_b);
    for (const auto& [a, b] : comparison_.pairs.pairs) {
      pair_of_a[a] = b;
      pair_of_b[b] = a;
    }
    row_of_a_.resize(count_a);
    row_of_b_.resize(count_b);
    std::size_t next_a = 0;
    const auto add_unpaired_before = [&](std::size_t end) {
      for (; next_a < end; ++next_a) {
        if (!pair_of_a[next_a]) add(next_a, std::nullopt);
      }
    };
    std::vector<std::size_t> end_of_replaced(count_b);  // by new node of a fusion: the node after the last replaced one
    for (const view::NodePairs::Fusion& fusion : comparison_.pairs.fusions) {
      for (const std::size_t b : fusion.b) end_of_replaced[b] = fusion.a.back() + 1;
    }
    for (std::size_t b = 0; b < count_b; ++b) {
      add_unpaired_before(pair_of_b[b] ? *pair_of_b[b] : end_of_replaced[b]);
      add(pair_of_b[b], b);
    }
    add_unpaired_before(count_a);
  }

  void add(std::optional<std::size_t> a, std::optional<std::size_t> b) {
    if (a) row_of_a_[*a] = table_.rows.size();
    if (b) row_of_b_[*b] = table_.rows.size();
    DiffRow& row = table_.rows.emplace_back();
    row.a = a;
    row.b = b;
    if (a) row.module_a = module_of(comparison_.a[*a]);
    if (b) row.module_b = module_of(comparison_.b[*b]);
  }

  std::optional<std::size_t> module_of(const view::DiffNode& node) const {
    if (node.attribution.modules.empty()) return std::nullopt;
    const auto found = module_of_path_.find(node.attribution.module);
    return found == module_of_path_.end() ? std::nullopt : std::optional(found->second);
  }

  void set_states() {
    for (DiffRow& row : table_.rows) {
      if (row.a && row.b &&
          !same_shapes(*comparison_.a[*row.a].node, *comparison_.b[*row.b].node, shapes_a_, shapes_b_))
        row.state = RowState::shape;
    }
    for (const view::ChangedNode& node : comparison_.diff.nodes) {
      DiffRow& row = table_.rows[node.b ? row_of_b_[*node.b] : row_of_a_[*node.a]];
      row.state = std::max(row.state, state_of(node.change));
      if (!node.differences.empty() || node.inserted) row.change = &node;
    }
    for (std::size_t at = 0; at < comparison_.pairs.fusions.size(); ++at) {
      const view::NodePairs::Fusion& fusion = comparison_.pairs.fusions[at];
      const RowState state = fusion.a.size() > 1 ? RowState::fused : RowState::replaced;
      for (const std::size_t a : fusion.a) {
        table_.rows[row_of_a_[a]].fusion = at;
        table_.rows[row_of_a_[a]].state = state;
      }
      for (const std::size_t b : fusion.b) table_.rows[row_of_b_[b]].fusion = at;
    }
  }

  void add_modules() {
    std::vector<std::size_t> around;  // by level
    for (const ModuleDiff& module : comparison_.diff.modules) {
      DiffModule& added = table_.modules.emplace_back();
      if (!module.path) continue;
      const auto level = static_cast<std::size_t>(module.level);
      if (level > 0) added.parent = around[level - 1];
      around.resize(level);
      around.push_back(table_.modules.size() - 1);
    }
  }

  std::optional<std::size_t> without_module() const {
    const std::vector<ModuleDiff>& modules = comparison_.diff.modules;
    return modules.back().path ? std::nullopt : std::optional(modules.size() - 1);
  }

  void count_counterparts() {
    nodes_a_.resize(table_.modules.size());
    nodes_b_.resize(table_.modules.size());
    for (const DiffRow& row : table_.rows) {
      const bool paired = row.a && row.b;
      if (row.a) count(row, paired, row.module_a, nodes_a_);
      if (row.b) count(row, paired, row.module_b, nodes_b_);
    }
  }

  void count(const DiffRow& row, bool paired, std::optional<std::size_t> module, std::vector<Nodes>& into) {
    for (std::optional<std::size_t> at = module; at; at = table_.modules[*at].parent) {
      Nodes& nodes = into[*at];
      ++nodes.all;
      nodes.with_counterpart += paired || row.fusion ? 1 : 0;
      nodes.fused += row.fusion ? 1 : 0;
    }
  }

  void set_module_state(std::size_t at) {
    const ModuleDiff& module = comparison_.diff.modules[at];
    DiffModule& result = table_.modules[at];
    const auto& states = result.states;
    const bool same_rows = std::accumulate(states.begin() + 1, states.end(), std::int64_t{0}) == 0;
    if (module.same() && same_rows) return;
    result.state = ModuleState::changed;
    if (!module.path) return;
    const Nodes &a = nodes_a_[at], &b = nodes_b_[at];
    if (a.all == 0 && b.all == 0) return;
    if (a.all > 0 && b.all > 0) {
      if (a.fused == a.all && b.fused == b.all) result.state = ModuleState::fused;
      return;
    }
    const Nodes& only = a.all > 0 ? a : b;
    if (only.with_counterpart == only.all) {
      result.state = only.fused == only.all ? ModuleState::fused : ModuleState::moved;
      one_sided_.push_back(at);
    } else if (only.with_counterpart == 0) {
      result.state = a.all > 0 ? ModuleState::removed : ModuleState::added;
    }
  }

  // Names the modules of the counterparts of modules of one file.
  void add_elsewhere() {
    std::vector<bool> is_wanted(table_.modules.size());
    for (const std::size_t at : one_sided_) is_wanted[at] = true;
    const auto note = [&](std::optional<std::size_t> from, std::optional<std::size_t> to) {
      if (!to) return;
      for (std::optional<std::size_t> at = from; at; at = table_.modules[*at].parent) {
        std::vector<std::size_t>& list = table_.modules[*at].elsewhere;
        if (is_wanted[*at] && list.size() < elsewhere_shown && std::ranges::find(list, *to) == list.end()) {
          list.push_back(*to);
        }
      }
    };
    for (const DiffRow& row : table_.rows) {
      if (row.a && row.b) {
        note(row.module_a, row.module_b);
        note(row.module_b, row.module_a);
      }
    }
    for (const view::NodePairs::Fusion& fusion : comparison_.pairs.fusions) {
      for (const std::size_t a : fusion.a) {
        for (const std::size_t b : fusion.b) {
          note(table_.rows[row_of_a_[a]].module_a, table_.rows[row_of_b_[b]].module_b);
          note(table_.rows[row_of_b_[b]].module_b, table_.rows[row_of_a_[a]].module_a);
        }
      }
    }
  }

  const Comparison& comparison_;
  const functions::ValueShapes& shapes_a_;
  const functions::ValueShapes& shapes_b_;
  FlatMap<std::string_view, std::size_t> module_of_path_;
  DiffTable table_;
  std::vector<std::size_t> row_of_a_, row_of_b_, one_sided_;
  std::vector<Nodes> nodes_a_, nodes_b_;  // by module
};

// Returns the modules for a page. Every ancestor of a module comes before it and differs if it does, so that the
// selection is closed.
std::vector<bool> select_modules(const DiffTable& table, const view::ModelDiff& diff, std::size_t limit) {
  const std::size_t count = table.modules.size();
  std::vector<bool> selected(count, count <= limit);
  if (count <= limit) return selected;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t at) {
    return std::pair(table.modules[at].state == ModuleState::equal, diff.modules[at].level);
  });
  selected[0] = true;
  for (std::size_t i = 0, taken = 1; i < count && taken < limit; ++i) {
    if (selected[order[i]]) continue;
    selected[order[i]] = true;
    ++taken;
  }
  return selected;
}

}  // namespace

std::string_view name_of(RowState state) { return row_state_words[static_cast<std::size_t>(state)]; }
std::string_view name_of(ModuleState state) { return module_state_words[static_cast<std::size_t>(state)]; }

DiffTable make_diff_table(const Comparison& comparison, const functions::ValueShapes& shapes_a,
                          const functions::ValueShapes& shapes_b) {
  return TableMaker(comparison, shapes_a, shapes_b).make();
}

std::optional<std::size_t> PagePart::place_of(const DiffTable& table, std::optional<std::size_t> module) const {
  while (module && !module_places[*module]) module = table.modules[*module].parent;
  return module ? module_places[*module] : std::nullopt;
}

PagePart part_for_page(const DiffTable& table, const view::ModelDiff& diff, const PageLimits& limits) {
  PagePart part;
  const std::vector<bool> has_module = select_modules(table, diff, limits.modules);
  part.module_places.resize(table.modules.size());
  for (std::size_t at = 0; at < table.modules.size(); ++at) {
    if (!diff.modules[at].path) continue;  // the page lists the nodes without a module after all modules
    if (!has_module[at]) {
      ++part.modules_left_out;
      continue;
    }
    part.module_places[at] = part.modules.size();
    part.modules.push_back(at);
  }
  std::vector<bool> differs(table.modules.size() + 1);  // by module, the last for rows without one: has a row that does
  const auto module_or_last = [&](const DiffRow& row) { return row.module().value_or(table.modules.size()); };
  for (const DiffRow& row : table.rows) {
    if (row.state != RowState::equal) differs[module_or_last(row)] = true;
  }
  // 0: the row differs, 1: another row of its module differs, 2: neither
  const auto rank = [&](const DiffRow& row) {
    return row.state != RowState::equal ? 0 : differs[module_or_last(row)] ? 1 : 2;
  };
  const auto listed = [&](const DiffRow& row) { return !row.module() || part.module_places[*row.module()]; };
  std::vector<bool> taken(table.rows.size());
  std::size_t room = limits.rows;
  for (int wanted = 0; wanted < 3; ++wanted) {
    for (std::size_t at = 0; at < table.rows.size() && room > 0; ++at) {
      if (rank(table.rows[at]) != wanted || !listed(table.rows[at])) continue;
      taken[at] = true;
      --room;
    }
  }
  for (std::size_t at = 0; at < table.rows.size(); ++at) {
    if (taken[at]) {
      part.rows.push_back(at);
    } else {
      ++part.rows_left_out;
      part.differing_rows_left_out += table.rows[at].state == RowState::equal ? 0 : 1;
    }
  }
  return part;
}

}  // namespace whence::report
