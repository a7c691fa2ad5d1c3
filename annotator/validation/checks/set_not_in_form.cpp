// V610: a list of names that the tool did not write in the format of docs/metadata-spec.md.
#include <set>

#include "annotator/metadata/operation_ids.h"
#include "annotator/origin/keys/node.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::find_property;

namespace {

// Returns true if there is white space between the elements of a JSON array.
bool has_space_between(std::string_view array) {
  bool quoted = false;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (quoted && array[i] == '\\') {
      ++i;
    } else if (array[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (array[i] == ' ' || array[i] == '\n' || array[i] == '\t' || array[i] == '\r')) {
      return true;
    }
  }
  return false;
}

std::string problem_of_form(std::string_view key, std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return "";  // a single identity
  if (has_space_between(text)) return std::string(key) + " has spaces between its elements";
  const std::vector<std::string> names = metadata::parse_ids(text);
  return std::set(names.begin(), names.end()).size() < names.size() ? std::string(key) + " lists a name twice" : "";
}

std::vector<FindingItem> find_set_not_in_form(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  for (std::size_t at = 0; at < edit.after.size(); ++at) {
    const onnx_file::OnnxNode& node = *edit.after[at].node;
    for (const std::string_view key : {keys::id, keys::modules}) {
      const auto text = find_property(node.metadata, key);
      const auto has_it = [&](const view::DiffNode& source) {
        return find_property(source.node->metadata, key) == text;
      };
      if (!text || edit.any_source(at, has_it)) continue;  // copied unchanged
      if (std::string problem = problem_of_form(key, *text); !problem.empty())
        items.push_back({shown_node(node), std::move(problem)});
    }
  }
  return items;
}

}  // namespace

const Check set_not_in_form_check = {
    {"V610", "set_not_in_form", "nodes with an id or modules in the wrong format (rule 2)",
     "write a JSON array without spaces and with each name once",
     "Tools compare these entries as text, so one set in two formats looks like two sets.", Severity::error},
    find_set_not_in_form,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
