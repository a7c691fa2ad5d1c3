// V602: a node that the tool kept but whose entries it changed.
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/stated_names.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxProperties;

namespace {

std::string previous_value(std::string_view key, std::string_view value) {
  return std::string(key).append(" was '").append(value).append("'");
}

// False for keys that a tool may join (V604 checks them) and for keys that whence rewrites when it annotates.
bool must_stay_equal(std::string_view key) {
  for (const std::string_view other : {keys::module, keys::modules, keys::primary, keys::id, keys::confidence,
                                       keys::kept, keys::merged, keys::original_name, keys::carry}) {
    if (key == other) return false;
  }
  return true;
}

bool describes_match(std::string_view key) {
  return key == keys::rule || key == keys::evidence || key == keys::version;
}

// A node that absorbed others may omit a key on which they disagree. V604 checks its operation numbers.
std::string change_of_single(const ToolEdit::Kept& kept, const ToolEdit& edit) {
  for (const auto& [key, value] : OnnxProperties(kept.before->node->metadata)) {
    const auto now = find_property(kept.after->node->metadata, key);
    if (now == value || !must_stay_equal(key) || (edit.is_reannotated && describes_match(key))) continue;
    const bool may_be_joined = edit.any_source(
        kept.at, [&](const view::DiffNode& source) { return find_property(source.node->metadata, key) != value; });
    if (!may_be_joined || (now && key != keys::op)) return previous_value(key, value);
  }
  return "";
}

bool has_less(const StatedNames& names, const StatedNames& before) { return !missing_from(before, names).empty(); }

std::string change_of(const ToolEdit::Kept& kept, const ToolEdit& edit) {
  const metadata::Attribution &was = kept.before->attribution, &is = kept.after->attribution;
  const auto has = [&](std::string_view key) { return find_property(kept.after->node->metadata, key).has_value(); };
  if (!has(keys::confidence) && !has(keys::module)) return "";  // reported by V601
  const StatedNames names = names_of(is), names_before = names_of(was);
  if (!is.attributed() || !missing_from(names_before.modules, names.modules).empty())
    return previous_value(keys::module, was.module);
  if (has_less(names, names_before)) return previous_value(keys::id, was.id);
  if (const std::string more = names_without_source(kept.at, edit); !more.empty())
    return "it names " + more + ", which it did not absorb";
  const bool absorbed_weaker = edit.any_source(
      kept.at, [&](const view::DiffNode& source) { return source.attribution.confidence >= is.confidence; });
  if (is.confidence > was.confidence && !absorbed_weaker && !edit.is_reannotated)
    return previous_value(keys::confidence, origin::name_of(was.confidence));
  return change_of_single(kept, edit);
}

std::vector<FindingItem> find_provenance_changed(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  for (const ToolEdit::Kept& kept : edit.kept) {
    if (!kept.before->attribution.attributed()) continue;
    const bool may_be_unattributed = !kept.after->attribution.attributed() && edit.any_source(kept.at, is_unattributed);
    if (may_be_unattributed) continue;
    if (std::string problem = change_of(kept, edit); !problem.empty())
      items.push_back({shown_node(*kept.after->node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_changed_check = {
    {"V602", "provenance_changed", "kept nodes with changed entries (rule 1)",
     "keep the entries of a node; add only the modules and identities of nodes that it absorbed",
     "The node still does the same work, but now states another origin.", Severity::error},
    find_provenance_changed,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
