#include "annotator/profile/module_profile.h"

#include <algorithm>
#include <set>

#include "annotator/functions/flat_summary.h"
#include "annotator/profile/module_amounts.h"
#include "annotator/view/model_explorer.h"
#include "schema/freed_memory.h"

namespace whence::profile {

using onnx_file::OnnxSummary;

namespace {

// Different models share operator names ("/Add", "MatMul_3"), so a few common names do not prove that the profile
// belongs to this model. Fusions rename operators, so many unknown names do not disprove it.
constexpr std::size_t names_per_match = 5;  // at least one name in 5 must match
constexpr std::size_t names_per_optimized_match = 2;

void require_matching_names(const RuntimeProfile& profile, const LayerPlacer& placer, const OptimizedFinder* optimized,
                            const Place& place) {
  std::set<std::string_view> all, matched, matched_optimized;
  for (const Layer& each : profile.layers) {
    if (each.count == 0) continue;
    all.insert(each.name);
    if (placer.has_node_in_model(each)) matched.insert(each.name);
    if (optimized != nullptr && optimized->known(each.name)) matched_optimized.insert(each.name);
  }
  const std::string of_all = " of the " + std::to_string(all.size()) + " operators of the profile";
  if (optimized != nullptr && matched_optimized.size() * names_per_optimized_match < all.size()) {
    throw Error(Code::sidecar_mismatch,
                "the optimised file has the names of only " + std::to_string(matched_optimized.size()) + of_all,
                "pass the file that the profiled session saved (SessionOptions.optimized_model_filepath)", place);
  }
  if (matched.size() * names_per_match < all.size()) {
    const bool onnxruntime = profile.source.starts_with("onnxruntime");
    throw Error(Code::sidecar_mismatch, "the model has only " + std::to_string(matched.size()) + of_all,
                onnxruntime
                    ? "pass the file that the profiled session loaded; if this is the file, also pass --optimized "
                      "FILE, which the session saves with SessionOptions.optimized_model_filepath"
                    : "pass the file that the runtime read",
                place);
  }
}

}  // namespace

namespace {

// Returns all names of nodes in the profile, including names in lists.
std::vector<std::string> names_in(const RuntimeProfile& profile, const InlinedNames& inlined) {
  std::vector<std::string> names;
  for (const Layer& layer : profile.layers) {
    names.push_back(inlined.name_by_whence(layer.name));
    for (const std::string& name : layer.holds.names) names.push_back(inlined.name_by_whence(name));
  }
  return names;
}

// Builds the profile without amounts, and frees the graph and finders on return.
ModuleProfile placed_layers(const std::string& model_path, const ProfileFiles& files) {
  const std::string& profile_path = files.profiles.front();
  const Place place{.file = profile_path, .stage = "profile"};
  OnnxSummary stored = value_of(onnx_file::read_onnx_summary(model_path));
  const bool is_cut = functions::has_cut_functions(stored);
  const OnnxSummary model = is_cut ? value_of(functions::read_flat_summary(model_path)) : std::move(stored);
  RuntimeProfile profile = read_runtime_profile(files.profiles, files.options);
  release_freed_memory();
  const InlinedNames inlined(is_cut ? stored : model, profile);
  view::NodeGraph graph = view::node_graph_of(model, nullptr);
  if (graph.tree.unattributed == graph.tree.count) {
    throw Error(Code::usage, "no node of the file names its module", "run `whence annotate` on it first",
                {.file = model_path, .stage = "profile"});
  }
  const metadata::ListedNames listed = metadata::age_of_names(graph.index.nodes(), names_in(profile, inlined));
  const NodeFinder names(graph, listed.age);
  std::optional<OnnxSummary> optimized;
  std::optional<OptimizedFinder> matches;
  if (!files.optimized.empty()) {
    optimized = value_of(onnx_file::read_onnx_summary(files.optimized));
    matches.emplace(*optimized, model, graph.tree, place);
  }
  const LayerPlacer placer(graph, names, inlined, matches ? &*matches : nullptr);
  require_matching_names(profile, placer, matches ? &*matches : nullptr, place);

  ModuleProfile result;
  if (listed.ambiguous) result.notes.push_back(metadata::ambiguous_names(profile_path));
  result.file = base_name(model_path);
  result.profile = base_name(profile_path);
  result.source = profile.source;
  result.unit = profile.unit;
  result.matched = matches.has_value();
  result.runs = profile.runs;
  result.warmup_runs = profile.warmup_runs;
  result.averaged = profile.averaged;
  result.run_amount = profile.run_amount;
  result.graph = view::viewer_graph_id(model);
  const std::vector<std::string> ids = view::viewer_ids(graph);
  std::vector<LayerModules> placed = placer.place(profile);
  std::vector<std::optional<std::size_t>> shown_at(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const bool one_node = placed[i].parts.empty() || placed[i].rule == ProfileRule::name;
    if (placed[i].row && one_node) shown_at[i] = placer.node_of(profile.layers[i]);
  }
  result.layers.reserve(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (profile.layers[i].count == 0) continue;
    const ProfileRule rule = placed[i].rule;
    if (rule == ProfileRule::derived || (rule == ProfileRule::name && !placed[i].same_operator)) ++result.merged;
    result.layers.push_back({std::move(profile.layers[i]), std::move(placed[i]), shown_at[i] ? ids[*shown_at[i]] : ""});
  }
  result.tree = std::move(graph.tree);
  return result;
}

}  // namespace

Result<ModuleProfile> profile_by_module(const std::string& model_path, const ProfileFiles& files) {
  return guarded([&] {
    ModuleProfile result = placed_layers(model_path, files);
    add_amounts(result);
    return result;
  });
}

}  // namespace whence::profile
