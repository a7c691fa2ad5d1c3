// The only list of checks. V1xx: names and structure; V2xx: external data; V3xx: whence's metadata; V4xx: onnx's
// checker; V6xx: how a tool changed the metadata. V5xx are the gates, which check coverage (gates.h).
#include "annotator/validation/checks.h"

#include <algorithm>

#include "annotator/validation/attested.h"
#include "annotator/validation/gates.h"

namespace whence::validation {

const std::vector<const Check*>& all_checks() {
  static const std::vector<const Check*> checks = {
      &node_name_empty_check,
      &node_name_duplicate_check,
      &metadata_key_duplicate_check,
      &metadata_needs_ir_10_check,
      &function_undefined_check,
      &domain_not_imported_check,
      &function_arity_check,
      &attribute_undeclared_check,
      &domain_imported_twice_check,
      &dtype_unknown_check,
      &tensor_size_check,
      &value_info_orphan_check,
      &name_unreadable_check,
      &external_data_missing_check,
      &external_data_range_check,
      &external_data_outside_check,
      &provenance_malformed_check,
      &sidecar_mismatch_check,
      &module_unknown_check,
      &onnx_checker_check,
      &provenance_dropped_check,
      &provenance_changed_check,
      &confidence_raised_check,
      &provenance_not_joined_check,
      &module_not_the_ancestor_check,
      &provenance_invented_check,
      &model_keys_lost_check,
      &inserted_claims_too_much_check,
      &entries_of_one_node_check,
      &set_not_in_form_check,
  };
  return checks;
}

const Check* find_check(std::string_view code_or_name) {
  const auto found = std::find_if(all_checks().begin(), all_checks().end(), [&](const Check* check) {
    return code_or_name == check->code || code_or_name == check->name;
  });
  return found == all_checks().end() ? nullptr : *found;
}

const std::vector<const Rule*>& all_rules() {
  static const std::vector<const Rule*> rules = [] {
    std::vector<const Rule*> all(all_checks().begin(), all_checks().end());
    all.insert(all.end(), {&threshold_rule, &required_rule, &baseline_rule, &attested_rule});
    std::ranges::sort(all, {}, [](const Rule* rule) { return std::string_view(rule->code); });
    return all;
  }();
  return rules;
}

std::string shown_node(const onnx_file::OnnxNode& node) {
  if (!node.name.empty()) return std::string(node.name);
  return std::string(node.op_type) + (node.outputs.empty() ? "" : " -> " + std::string(node.outputs.front()));
}

}  // namespace whence::validation
