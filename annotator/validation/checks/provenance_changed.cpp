// V602: a node that the tool kept, and whose entries it did not.
#include "annotator/origin/keys/node.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/undo.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/names_said.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxProperties;

namespace {

std::string was_said(std::string_view key, std::string_view value) {
  return std::string(key).append(" was '").append(value).append("'");
}

// Keys that a tool may join, at which V604 looks, and those that whence writes anew where it annotates.
bool is_single(std::string_view key) {
  for (const std::string_view other : {keys::module, keys::modules, keys::id, keys::confidence, keys::kept,
                                       keys::merged, keys::original_name, keys::carry}) {
    if (key == other) return false;
  }
  return true;
}

bool says_how_found(std::string_view key) { return key == keys::rule || key == keys::evidence || key == keys::version; }

// A node that took others in leaves a key out on which they disagree; its numbers of operations are for V604.
std::string change_of_single(const ToolEdit::Kept& kept, const ToolEdit& edit) {
  for (const auto& [key, value] : OnnxProperties(kept.before->node->metadata)) {
    const auto now = find_property(kept.after->node->metadata, key);
    if (now == value || !is_single(key) || (edit.found_again && says_how_found(key))) continue;
    const bool may_be_joined = edit.any_source(
        kept.at, [&](const view::DiffNode& source) { return find_property(source.node->metadata, key) != value; });
    if (!may_be_joined || (now && key != keys::op)) return was_said(key, value);
  }
  return "";
}

bool has_less(const NamesSaid& names, const NamesSaid& before) { return !missing_from(before, names).empty(); }

std::string change_of(const ToolEdit::Kept& kept, const ToolEdit& edit) {
  const metadata::Attribution &was = kept.before->attribution, &is = kept.after->attribution;
  const auto has = [&](std::string_view key) { return find_property(kept.after->node->metadata, key).has_value(); };
  if (!has(keys::confidence) && !has(keys::module)) return "";  // V601
  const NamesSaid names = names_of(is), names_before = names_of(was);
  if (!is.attributed() || !missing_from(names_before.modules, names.modules).empty())
    return was_said(keys::module, was.module);
  if (has_less(names, names_before)) return was_said(keys::id, was.id);
  if (const std::string more = named_beside_sources(kept.at, edit); !more.empty())
    return "it names " + more + ", which it did not take in";
  const bool took_in_weaker = edit.any_source(
      kept.at, [&](const view::DiffNode& source) { return source.attribution.confidence >= is.confidence; });
  if (is.confidence > was.confidence && !took_in_weaker && !edit.found_again)
    return was_said(keys::confidence, origin::name_of(was.confidence));
  return change_of_single(kept, edit);
}

std::vector<FindingItem> find_provenance_changed(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  for (const ToolEdit::Kept& kept : edit.kept) {
    if (!kept.before->attribution.attributed()) continue;
    const bool may_say_less = !kept.after->attribution.attributed() && edit.any_source(kept.at, is_unknown);
    if (may_say_less) continue;
    if (std::string problem = change_of(kept, edit); !problem.empty())
      items.push_back({shown_node(*kept.after->node), std::move(problem)});
  }
  return items;
}

}  // namespace

const Check provenance_changed_check = {
    {"V602", "provenance_changed", "nodes that the tool kept with other entries (rule 1)",
     "leave the entries of a node as they are; add to modules and id what the node took in",
     "The node still does what it did, and now is said to come from somewhere else.", Severity::error},
    find_provenance_changed,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
