// Declares every check. Each is defined in the file of its name in checks/; checks.cpp lists them in order.
#pragma once

#include "annotator/validation/check.h"

namespace whence::validation {

extern const Check node_name_empty_check, node_name_duplicate_check, metadata_key_duplicate_check,
    metadata_needs_ir_10_check, function_undefined_check, domain_not_imported_check, function_arity_check,
    attribute_undeclared_check, domain_imported_twice_check, dtype_unknown_check, tensor_size_check,
    value_info_orphan_check, name_unreadable_check, external_data_missing_check, external_data_range_check,
    external_data_outside_check, provenance_malformed_check, sidecar_mismatch_check, module_unknown_check,
    onnx_checker_check, provenance_dropped_check, provenance_changed_check, confidence_raised_check,
    provenance_not_joined_check, module_not_the_ancestor_check, provenance_invented_check, model_keys_lost_check,
    inserted_claims_too_much_check, entries_of_one_node_check, set_not_in_form_check;

}  // namespace whence::validation
