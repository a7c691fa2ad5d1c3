// ModuleProfile: a runtime's profile summed up by the modules of the model that ran. What belongs to no module that is
// known is kept apart; it is not added to the root.
//
// Amounts are microseconds, cycles, bytes or nodes (RuntimeProfile::unit). A module's total is what surely belongs to
// it and to modules below; `at_most` adds layers that the runtime made of its nodes and of others'.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "annotator/profile/layer_modules.h"
#include "annotator/profile/profile_reader.h"
#include "annotator/profile/runtime_profile.h"
#include "annotator/text/table.h"
#include "annotator/view/module_tree.h"
#include "whence/diagnostics.h"

namespace whence::profile {

struct ProfiledLayer {
  Layer ran;
  LayerModules modules;
  std::string node = {};  // id of the node that viewers show it at (view::viewer_ids); empty: none
};

struct ModuleAmount {
  std::int64_t own = 0, total = 0, at_most = 0;   // sums of all runs
  std::int64_t wall = 0;                          // total, with what ran at the same time counted once
  std::map<std::string, std::int64_t> providers;  // total by execution provider; those without a name are not in it
  std::optional<LayerMemory> memory;              // sums over its layers and those below; of the peak, the largest
};

// The amount of one call of a module, if it is called several times, or its calls are known; modules below excluded.
struct CallAmount {
  std::size_t row = 0;
  std::string call;
  std::int64_t amount = 0;
};

struct ModuleProfile {
  std::string file, profile;  // base names
  Diagnostics notes;          // warnings about the names in the profile
  std::string graph;          // as viewers know it (view::viewer_graph_id)
  std::string_view source;    // name of the reader
  Unit unit = Unit::microseconds;
  view::ModuleTree tree;
  std::int64_t runs = 0, warmup_runs = 0;
  bool averaged = false;                   // amounts are those of an average run
  std::optional<std::int64_t> run_amount;  // sum of all runs, what lies between layers included
  std::int64_t amount = 0, unattributed = 0;
  std::optional<std::int64_t> wall;  // sum of all layers, what ran at the same time counted once; where times are known
  std::vector<ProfiledLayer> layers;  // in the order in which they first ran
  std::vector<ModuleAmount> amounts;  // by row
  std::vector<CallAmount> calls;      // by row, then number
  bool matched = false;               // the optimised file was at hand
  std::int64_t merged = 0;            // layers found by name that are another operator now: fused, as far as names tell

  bool overlaps() const { return wall && *wall < amount; }
  bool has_bounds() const;     // some layer is of several modules
  bool has_providers() const;  // layers ran on several
  std::span<const CallAmount> calls_of(std::size_t row) const;
};

// The files that a profile is made of: those of one run, and the model as ONNX Runtime saved it, or "".
struct ProfileFiles {
  std::vector<std::string> profiles;
  std::string optimized;
  ReadOptions options = {};
};

// `model`: the annotated file that ran. Errors: those of read_onnx_summary and read_runtime_profile; usage when no
// node of `model` names its module; sidecar_mismatch when the names do not meet.
Result<ModuleProfile> profile_by_module(const std::string& model, const ProfileFiles& files);

struct TextOptions {
  int depth = 3;  // levels of modules shown
  bool memory = false;
};
std::string to_text(const ModuleProfile& profile, const TextOptions& options, const text::Palette& palette);
std::string to_json(const ModuleProfile& profile);  // schema/profile.schema.json
// One line a stack, "model;encoder;layer.0;MatMul 1234", in the profile's unit: what flamegraph.pl and inferno read.
std::string to_collapsed(const ModuleProfile& profile);
std::string to_speedscope(const ModuleProfile& profile);  // speedscope.app/file-format-schema.json
// Node data for Model Explorer: the amount of an average run at each node that a layer kept the name of, or at the
// first of those that it was made of. Layers that hold nodes of several modules, or none that is known, are left out;
// how much is shown stands in the title.
std::string to_node_data(const ModuleProfile& profile);

}  // namespace whence::profile
