// ModuleProfile: a runtime's profile summed by the modules of the model that ran. Layers without a known module are
// counted separately, not for the root.
//
// Amounts are microseconds, cycles, bytes or nodes (RuntimeProfile::unit). A module's `total` is the amount that
// certainly belongs to it and the modules below; `at_most` adds layers that the runtime fused from nodes of this and
// other modules.
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
  Layer runtime_layer;
  LayerModules modules;
  std::string node = {};  // id of the node at which viewers show it (view::viewer_ids); empty: none
};

struct ModuleAmount {
  std::int64_t own = 0, total = 0, at_most = 0;   // sums of all runs
  std::int64_t wall = 0;                          // total, with concurrent layers counted once
  std::map<std::string, std::int64_t> providers;  // total by execution provider, without unnamed providers
  std::optional<LayerMemory> memory;              // sums of layers at and below; the largest peak
};

// The amount of one call of a module, if the call is known; without modules below.
struct CallAmount {
  std::size_t row = 0;
  std::string call;
  std::int64_t amount = 0;
};

struct ModuleProfile {
  std::string file, profile;  // base names
  Diagnostics notes;          // warnings about the names in the profile
  std::string graph;          // id of the graph for viewers (view::viewer_graph_id)
  std::string_view source;    // name of the reader
  Unit unit = Unit::microseconds;
  view::ModuleTree tree;
  std::int64_t runs = 0, warmup_runs = 0;
  bool averaged = false;                   // amounts are of an average run
  std::optional<std::int64_t> run_amount;  // sum of all runs, including time between layers
  std::int64_t amount = 0, unattributed = 0;
  std::optional<std::int64_t> wall;   // sum of all layers, with concurrent layers counted once; nullopt: no times
  std::vector<ProfiledLayer> layers;  // in the order in which they first ran
  std::vector<ModuleAmount> amounts;  // by row
  std::vector<CallAmount> calls;      // by row, then number
  bool matched = false;               // matched with the optimised file
  std::int64_t merged = 0;            // layers with a node's name but another operator, probably fused

  bool overlaps() const { return wall && *wall < amount; }
  bool has_bounds() const;     // some layer has several modules
  bool has_providers() const;  // layers ran on several providers
  std::span<const CallAmount> calls_of(std::size_t row) const;
};

// The files for one profile: the runtime's files of a run, and the optimised model that ONNX Runtime saved, or "".
struct ProfileFiles {
  std::vector<std::string> profiles;
  std::string optimized;
  ReadOptions options = {};
};

// Sums a profile by module. `model` is the annotated file that ran. Errors: as read_onnx_summary() and
// read_runtime_profile(); usage if no node of `model` names its module; sidecar_mismatch if too few names match.
Result<ModuleProfile> profile_by_module(const std::string& model, const ProfileFiles& files);

struct TextOptions {
  int depth = 3;  // levels of modules shown
  bool memory = false;
};
std::string to_text(const ModuleProfile& profile, const TextOptions& options, const text::Palette& palette);
std::string to_json(const ModuleProfile& profile);  // schema/profile.schema.json
// Returns a line for each stack, "model;encoder;layer.0;MatMul 1234", in the profile's unit, for flamegraph.pl and
// inferno.
std::string to_collapsed(const ModuleProfile& profile);
std::string to_speedscope(const ModuleProfile& profile);  // speedscope.app/file-format-schema.json
// Returns node data for Model Explorer: the amount of an average run, at the first node that a layer lists or else at
// the node whose name it has. Leaves out layers of several modules or without known nodes; the title states how much is
// shown.
std::string to_node_data(const ModuleProfile& profile);

}  // namespace whence::profile
