#include "annotator/app/place.h"

#include <cmath>
#include <map>
#include <set>

#include "annotator/annotation/layer_assignment.h"
#include "annotator/app/fitting_sidecar.h"
#include "annotator/app/separate_files.h"
#include "annotator/functions/flat_summary.h"
#include "annotator/placement/device.h"
#include "annotator/profile/module_profile.h"

namespace whence::app {

using onnx_file::OnnxSummary;
using placement::Placement;

namespace {

// Adds the time per run to devices. A module's own time counts only if all its own nodes are on one device.
void add_times(const profile::ModuleProfile& profile, Placement& placed) {
  std::map<std::string_view, std::set<std::string_view>> devices;
  for (std::size_t i = 0; i < placed.devices.size(); ++i) devices[placed.modules[i]].insert(placed.devices[i]);
  std::map<std::string_view, std::int64_t> times;
  std::int64_t unattributed = profile.unattributed;
  for (std::size_t row = 0; row < profile.amounts.size(); ++row) {
    const auto known = devices.find(profile.tree.rows[row].path);
    if (known != devices.end() && known->second.size() == 1) {
      times[*known->second.begin()] += profile.amounts[row].own;
    } else {
      unattributed += profile.amounts[row].own;
    }
  }
  const auto per_run = [&](std::int64_t sum) {
    return std::llround(static_cast<double>(sum) / static_cast<double>(profile.runs));
  };
  placed.unattributed_microseconds = per_run(unattributed);
  for (placement::DeviceShare& share : placed.shares) share.microseconds = per_run(times[share.device]);
}

profile::ModuleProfile times_of(const std::string& model, const PlaceOptions& options, Diagnostics& notes) {
  profile::ModuleProfile found =
      unwrap(profile::profile_by_module(model, {{options.profile}, options.optimized}), notes);
  if (found.unit == profile::Unit::microseconds) return found;
  throw Error(Code::usage, "the profile has " + std::string(name_of(found.unit)) + " instead of times",
              "pass a profile with the time of each operator", {.file = options.profile, .stage = "place"});
}

void require_flat(const OnnxSummary& model, const std::string& file) {
  if (!functions::has_cut_functions(model)) return;
  throw Error(Code::usage, "modules of the file are functions, and all calls of a function would share one device",
              "run `whence inline` on the file first", {.file = file, .stage = "place"});
}

}  // namespace

PlaceReport place(const std::string& model_path, const PlaceOptions& options) {
  if (options.rules.empty() && !options.output.empty()) {
    throw Error(Code::usage, "--output needs at least one rule", "pass --rule 'gpu=encoder.**'",
                {.stage = "command line"});
  }
  std::vector<placement::Rule> rules;
  for (const std::string& rule : options.rules) rules.push_back(placement::parse_rule(rule));
  const std::vector<NamedFile> inputs = {{"the model", model_path},
                                         {"the sidecar", options.sidecar.value_or("")},
                                         {"--profile", options.profile},
                                         {"--optimized", options.optimized},
                                         {"--assigned", options.providers}};
  std::optional<onnx_file::ModelOutput> output;
  if (!options.output.empty()) {
    output = model_output(inputs, {"--output", options.output}, InPlace::allowed, options.overwrite);
  }
  PlaceReport report;
  if (output) {
    output->copy_data = options.copy_data;
    output->notes = &report.notes;
  }
  const OnnxSummary model = unwrap(onnx_file::read_onnx_summary(model_path), report.notes);
  require_flat(model, model_path);
  const std::optional<Sidecar> sidecar = read_fitting_sidecar(options.sidecar, {&model}, report.notes);
  std::optional<metadata::Recorded> recorded;
  if (sidecar && metadata::belongs_to(model, sidecar->program)) recorded.emplace(sidecar->program);
  const metadata::Recorded* known = recorded ? &*recorded : nullptr;
  report.placement = rules.empty() ? placement::placement_in(model, known)
                                   : placement::place_nodes(model, rules, options.otherwise, known);
  metadata::note_origins(model, report.notes);
  if (!options.profile.empty()) add_times(times_of(model_path, options, report.notes), report.placement);
  if (!options.providers.empty()) {
    report.placement.compared =
        placement::compare_with_providers(model, report.placement, options.providers, report.notes);
  }
  if (output) {
    annotation::write_layer_assignment(model, report.placement.devices, std::string(placement::no_device),
                                       report.placement.settings, model_path, *output, report.notes);
  }
  return report;
}

}  // namespace whence::app
