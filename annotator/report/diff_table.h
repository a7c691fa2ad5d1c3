// DiffTable: the nodes of two files as rows of one table, each row a node of one file or a node of both, and what
// became of each module. The page of `whence diff` shows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/view/diff.h"

namespace whence::report {

// `shape`: a node of both files whose results have another type or other sizes, and nothing else differs. The others
// are those of view::Change; a node with several changes has the last of them in this order.
enum class RowState : std::uint8_t { equal, shape, renamed, moved, changed, replaced, fused, added, removed };
inline constexpr std::size_t row_state_count = 9;
std::string_view name_of(RowState state);

struct DiffRow {
  std::optional<std::size_t> a, b;  // the node's numbers in the Comparison
  RowState state = RowState::equal;
  std::optional<std::size_t> fusion;              // index into NodePairs::fusions
  std::optional<std::size_t> module_a, module_b;  // index into ModelDiff::modules; nullopt: no node, or no module
  const view::ChangedNode* change = nullptr;      // the entry with its differences, or of the inserted node

  // The module under which the row is listed: that of the second file, if it has the node.
  const std::optional<std::size_t>& module() const { return b ? module_b : module_a; }
};

// What became of a module. `added`, `removed`: only one file has nodes of it, and none of these has a counterpart.
// `moved`, `fused`: only one file has nodes of it, and all have counterparts elsewhere; or all nodes of a module of
// both files were fused.
enum class ModuleState : std::uint8_t { equal, changed, fused, moved, added, removed };
inline constexpr std::size_t module_state_count = 6;
std::string_view name_of(ModuleState state);

struct DiffModule {
  std::optional<std::size_t> parent;
  std::array<std::int64_t, row_state_count> states{};  // rows at and below
  ModuleState state = ModuleState::equal;
  std::vector<std::size_t> elsewhere;  // of a moved or fused module: the modules of the counterparts, at most three
};

struct DiffTable {
  std::vector<DiffRow> rows;        // in the order of the second file, with removed and replaced nodes in between
  std::vector<DiffModule> modules;  // by index in ModelDiff::modules
  std::array<std::int64_t, row_state_count> states{};  // all rows
};

// `comparison` must outlive the result. The shapes are those of the two files; values without a shape are not compared.
DiffTable make_diff_table(const view::Comparison& comparison, const functions::ValueShapes& shapes_a,
                          const functions::ValueShapes& shapes_b);

// How much of a comparison a page holds. It opens in a second or two with this much.
struct PageLimits {
  std::size_t modules = 50'000, rows = 100'000, edges = 400'000;
};

// The part of a table that a page holds: modules that differ first, the outermost first, then rows that differ, then
// the other rows of their modules.
struct PagePart {
  std::vector<std::size_t> modules, rows;                 // indices in the table, increasing; the root is always there
  std::vector<std::optional<std::size_t>> module_places;  // by index in the table, its position in `modules`
  std::size_t modules_left_out = 0, rows_left_out = 0, differing_rows_left_out = 0;

  // Returns the position of the module, or of the nearest module around it.
  std::optional<std::size_t> place_of(const DiffTable& table, std::optional<std::size_t> module) const;
};
PagePart part_for_page(const DiffTable& table, const view::ModelDiff& diff, const PageLimits& limits);

}  // namespace whence::report
