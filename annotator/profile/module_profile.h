// ModuleProfile: a profile of ONNX Runtime summed up by the modules of the model that ran. Time whose module is not
// known is kept apart; it is not added to the root.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "annotator/profile/ort_profile.h"
#include "annotator/text/table.h"
#include "annotator/view/module_tree.h"

namespace whence::profile {

// The way in which the module of an operator that ran became known.
enum class ProfileRule : std::uint8_t {
  none,     // it is not
  name,     // a node of the model has its name
  derived,  // its name begins with that of a node: "<name>/MatMulAddFusion"
  match,    // by matching the optimised model with the annotated one
};
std::string_view name_of(ProfileRule rule);

struct ProfiledNode {
  ProfiledOperator ran;
  ProfileRule rule = ProfileRule::none;
  std::optional<std::size_t> row;  // in the module tree; none: no module is known
  std::string call;                // number of the module's call; empty when not known
};

struct ModuleTime {
  std::int64_t own = 0, total = 0;  // microseconds, of all runs
};

// Time of one call of a module that is called several times, or whose calls are known; modules below excluded.
struct CallTime {
  std::size_t row = 0;
  std::string call;
  std::int64_t microseconds = 0;
};

struct ModuleProfile {
  std::string file, profile;  // base names
  view::ModuleTree tree;
  std::int64_t runs = 0, run_microseconds = 0, microseconds = 0, unattributed = 0;
  std::vector<ProfiledNode> nodes;  // in the order in which they first ran
  std::vector<ModuleTime> times;    // by row
  std::vector<CallTime> calls;      // by row, then number
  bool matched = false;             // the optimised file was at hand
  std::int64_t merged = 0;  // operators found by name that are another operator now: fused, as far as names tell
};

// `model`: the annotated file that the session was made from. `optimized`: the file that ONNX Runtime saved of the same
// session (optimized_model_filepath), or empty. Errors: those of read_onnx_summary and read_ort_profile; usage when no
// node of `model` names its module; sidecar_mismatch when the names do not meet.
Result<ModuleProfile> profile_by_module(const std::string& model, const std::string& profile,
                                        const std::string& optimized);

// `depth`: levels of modules shown.
std::string to_text(const ModuleProfile& profile, int depth, const text::Palette& palette);
std::string to_json(const ModuleProfile& profile);  // schema/profile.schema.json
// One line a stack, "model;encoder;layer.0;MatMul 1234", microseconds: what flamegraph.pl and inferno read.
std::string to_collapsed(const ModuleProfile& profile);
std::string to_speedscope(const ModuleProfile& profile);  // speedscope.app/file-format-schema.json

}  // namespace whence::profile
