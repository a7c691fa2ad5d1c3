// A profile by module for people: the tree with its times, calls where there are several, what is not known.
#include <algorithm>
#include <array>
#include <cstdio>

#include "annotator/profile/module_profile.h"
#include "annotator/view/tree_text.h"
#include "schema/module_path.h"

namespace whence::profile {

using text::Align;
using text::Cell;
using text::grouped;
using text::Palette;

namespace {

constexpr std::size_t operators_shown = 8;

std::string milliseconds(std::int64_t microseconds, std::int64_t runs) {
  std::array<char, 32> text{};
  const double each = static_cast<double>(microseconds) / static_cast<double>(runs) / 1000;
  std::snprintf(text.data(), text.size(), "%.3f", each);
  return text.data();
}

// Ten to the full: "######    " without the blanks.
std::string bar(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "" : std::string(static_cast<std::size_t>((part * 20 + whole - 1) / whole), '#');
}

std::string modules_text(const ModuleProfile& profile, int depth, const Palette& palette) {
  view::ModuleTable table(palette, {{"type", Align::left},
                                    {"ms a run", Align::right},
                                    {"share", Align::right},
                                    {"own ms", Align::right},
                                    {"", Align::left}});
  for (std::size_t i = 0; i < profile.tree.rows.size(); ++i) {
    const view::ModuleRow& row = profile.tree.rows[i];
    const ModuleTime& time = profile.times[i];
    if (row.level > depth || (time.total == 0 && i != 0)) continue;
    table.module(row.path, {Cell(last_segment(row.type), palette.dim), milliseconds(time.total, profile.runs),
                            text::share_text(time.total, profile.microseconds),
                            time.own == 0 ? "" : milliseconds(time.own, profile.runs),
                            Cell(bar(time.total, profile.microseconds), palette.green)});
    const auto first = std::ranges::find(profile.calls, i, &CallTime::row);
    const auto last = std::find_if(first, profile.calls.end(), [&](const CallTime& call) { return call.row != i; });
    if (last - first < 2) continue;
    for (auto call = first; call != last; ++call) {
      table.below("call " + call->call, {"", "", "", milliseconds(call->microseconds, profile.runs)}, palette.dim);
    }
  }
  if (profile.unattributed > 0) {
    table.apart("(no module known)",
                {"", milliseconds(profile.unattributed, profile.runs),
                 text::share_text(profile.unattributed, profile.microseconds), "",
                 Cell(bar(profile.unattributed, profile.microseconds), palette.yellow)},
                palette.yellow);
  }
  return table.text();
}

std::string operators_text(const ModuleProfile& profile, const Palette& palette) {
  std::vector<const ProfiledNode*> nodes;
  for (const ProfiledNode& node : profile.nodes) nodes.push_back(&node);
  std::ranges::stable_sort(nodes, std::greater{}, [](const ProfiledNode* node) { return node->ran.microseconds; });
  text::Table table(palette, {Align::right, Align::right, Align::left, Align::left, Align::left});
  table.header({"ms a run", "share", "operator", "module", "node"});
  for (std::size_t i = 0; i < std::min(nodes.size(), operators_shown); ++i) {
    const ProfiledNode& node = *nodes[i];
    table.row({milliseconds(node.ran.microseconds, profile.runs),
               text::share_text(node.ran.microseconds, profile.microseconds), node.ran.op_type,
               node.row ? Cell(view::shown_path(profile.tree.rows[*node.row].path)) : Cell("not known", palette.yellow),
               Cell(node.ran.name, palette.dim)});
  }
  return table.text();
}

}  // namespace

std::string to_text(const ModuleProfile& profile, int depth, const Palette& palette) {
  std::string text = std::string(palette.bold) + printable(profile.file) + std::string(palette.reset) + ": " +
                     grouped(profile.runs) + (profile.runs == 1 ? " run, " : " runs, ") +
                     milliseconds(profile.run_microseconds, profile.runs) + " ms each, " +
                     milliseconds(profile.microseconds, profile.runs) + " ms of it in " +
                     grouped(static_cast<std::int64_t>(profile.nodes.size())) + " operators\n\n";
  text += modules_text(profile, depth, palette) + "\n" + operators_text(profile, palette);
  if (profile.merged > 0) {
    text += "\n" + grouped(profile.merged) +
            " operators are fused ones that kept a node's name: their time is all that node's module's.\n";
  }
  if (profile.unattributed > 0 && !profile.matched) {
    text +=
        "\nFor operators that fusion renamed: --optimized FILE, which the session saves with "
        "SessionOptions.optimized_model_filepath.\n";
  }
  return text;
}

}  // namespace whence::profile
