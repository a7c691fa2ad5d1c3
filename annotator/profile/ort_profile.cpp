#include "annotator/profile/ort_profile.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "annotator/profile/ort_compiled.h"

namespace whence::profile {
namespace {

const std::string end_the_session = "run the session again, and end it with end_profiling()";

struct Run {
  std::int64_t process = 0, thread = 0, start = 0, duration = 0;
};

bool holds_bodies(const OrtKernel& kernel) {
  return kernel.op_type == "If" || kernel.op_type == "Loop" || kernel.op_type == "Scan";
}

// Subtracts the time of nested operators from If, Loop and Scan: operators of a body run on the same thread.
void subtract_bodies(std::vector<OrtKernel>& kernels) {
  std::vector<std::size_t> order(kernels.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const LayerEvent& event = kernels[i].event;  // if two events start together, the enclosing one comes first
    return std::tuple(event.process, event.thread, event.start, -event.duration, !holds_bodies(kernels[i]));
  };
  std::ranges::stable_sort(order, {}, key);
  std::vector<std::size_t> open;
  for (const std::size_t i : order) {
    const LayerEvent& event = kernels[i].event;
    const auto holds = [&](const LayerEvent& outer) {
      return outer.process == event.process && outer.thread == event.thread &&
             event.start + event.duration <= outer.start + outer.duration;
    };
    while (!open.empty() && !holds(kernels[open.back()].event)) open.pop_back();
    if (!open.empty()) kernels[open.back()].within += event.duration;
    if (holds_bodies(kernels[i])) open.push_back(i);
  }
}

// Reads the sizes, which are strings; profiles of older ONNX Runtimes have fewer or none.
void read_memory_of(const JsonValue& arguments, OrtKernel& kernel) {
  const auto outputs = amount_at(arguments, "output_size");
  const auto in_use = amount_at(arguments, "mem_bytes_in_use");
  kernel.session_peak = amount_at(arguments, "mem_in_use_peak");
  if (!outputs && !in_use && !kernel.session_peak) return;
  kernel.memory = LayerMemory{amount_at(arguments, "activation_size").value_or(0),
                              amount_at(arguments, "parameter_size").value_or(0), outputs.value_or(0), 0, in_use};
}

// mem_in_use_peak is the session's peak since its start. If a kernel raises it, that is the kernel's peak. Otherwise
// the memory in use at the kernel's end is used.
void add_peaks(std::vector<OrtKernel>& kernels) {
  std::vector<OrtKernel*> order;
  for (OrtKernel& kernel : kernels) {
    if (kernel.session_peak) order.push_back(&kernel);
  }
  std::ranges::stable_sort(order, {}, [](const OrtKernel* each) { return each->event.start + each->event.duration; });
  std::int64_t highest = 0;
  for (OrtKernel* kernel : order) {
    if (*kernel->session_peak <= highest) continue;
    highest = *kernel->session_peak;
    kernel->memory->peak = highest;
  }
}

OrtKernel read_kernel(const JsonValue& json, AmountSum& durations, const Place& place) {
  OrtKernel kernel{};
  kernel.name = text_at(json, "name");
  kernel.name.resize(kernel.name.size() - kernel_suffix.size());
  if (const auto arguments = json.find("args")) {
    kernel.op_type = text_at(*arguments, "op_name");
    kernel.provider = text_at(*arguments, "provider");
    read_memory_of(*arguments, kernel);
  }
  kernel.event = {ort_time_at(json, "pid", place), ort_time_at(json, "tid", place), ort_time_at(json, "ts", place)};
  kernel.event.duration = durations.add(ort_time_at(json, "dur", place));
  if (is_compiled(kernel)) kernel.compiled = kernel.name;
  return kernel;
}

bool is_in_run(const LayerEvent& event, const Run& run) {
  return event.process == run.process && event.start >= run.start &&
         event.start + event.duration <= run.start + run.duration;
}

// Assigns each kernel to a run by time, because parallel execution runs kernels on threads other than the caller's. If
// runs overlap, prefers the run on the kernel's thread.
void number_runs(std::vector<OrtKernel>& kernels, const std::vector<Run>& runs) {
  const std::int64_t longest = std::ranges::max(runs, {}, &Run::duration).duration;
  for (OrtKernel& kernel : kernels) {
    LayerEvent& event = kernel.event;
    event.run = -1;
    for (auto run = std::ranges::upper_bound(runs, event.start, {}, &Run::start); run != runs.begin();) {
      --run;
      if (run->start + longest < event.start) break;
      if (!is_in_run(event, *run)) continue;
      if (event.run < 0 || run->thread == event.thread) event.run = run - runs.begin();
      if (run->thread == event.thread) break;
    }
  }
}

void add(const LayerMemory& memory, std::optional<LayerMemory>& to) {
  if (!to) to = memory;
  to->inputs = std::max(to->inputs, memory.inputs);
  to->parameters = std::max(to->parameters, memory.parameters);
  to->outputs = std::max(to->outputs, memory.outputs);
  if (memory.peak) to->peak = std::max(to->peak.value_or(0), *memory.peak);
}

using LayerKey = std::tuple<std::string, std::string, std::string, std::string>;

LayerKey key_of(const OrtKernel& kernel) { return {kernel.name, kernel.op_type, kernel.provider, kernel.compiled}; }

std::map<LayerKey, std::optional<LayerMemory>> memory_by_layer(const std::vector<OrtKernel>& kernels) {
  std::map<LayerKey, std::optional<LayerMemory>> memory;
  for (const OrtKernel& kernel : kernels) {
    if (kernel.memory) add(*kernel.memory, memory[key_of(kernel)]);
  }
  return memory;
}

std::vector<Layer> layers_of(const std::vector<OrtKernel>& kernels) {
  std::vector<Layer> layers;
  std::map<LayerKey, std::size_t> known;
  for (const OrtKernel& kernel : kernels) {
    const auto [at, is_new] = known.try_emplace(key_of(kernel), layers.size());
    if (is_new) {
      layers.push_back(
          {.name = kernel.name, .op_type = kernel.op_type, .provider = kernel.provider, .compiled = kernel.compiled});
      // A provider names a part after a node, or after the tensor that the node computes.
      if (kernel.compiled != kernel.name && !kernel.compiled.empty()) layers.back().holds.names = {kernel.name};
    }
    Layer& to = layers[at->second];
    ++to.count;
    to.amount += kernel.event.duration - kernel.within;
    to.events.push_back(kernel.event);
  }
  return layers;
}

std::size_t warmup_of(std::size_t runs, const ReadOptions& options, const Place& place) {
  if (!options.warmup_runs) return runs > 1 ? 1 : 0;
  if (*options.warmup_runs < static_cast<std::int64_t>(runs)) return static_cast<std::size_t>(*options.warmup_runs);
  throw Error(Code::usage,
              "--warmup " + std::to_string(*options.warmup_runs) + " leaves none of the " + std::to_string(runs) +
                  " runs in the profile",
              "use a smaller --warmup, or a profile with more runs", place);
}

bool is_run(const JsonValue& event) {
  return text_at(event, "cat") == "Session" && text_at(event, "name") == "model_run";
}

bool is_kernel(const JsonValue& event) {
  return text_at(event, "cat") == "Node" && text_at(event, "name").ends_with(kernel_suffix);
}

bool recognises_ort_profile(const ProfileInput& input) {
  return input.json && std::ranges::any_of(elements(*input.json),
                                           [](const JsonValue& each) { return is_run(each) || is_kernel(each); });
}

RuntimeProfile read_ort_profile(const ProfileInput& input, const ReadOptions& options) {
  RuntimeProfile profile;
  std::vector<OrtKernel> kernels;
  std::vector<Run> runs;
  std::vector<ProviderEvent> provider_events;
  AmountSum durations(input.place), durations_of_runs(input.place), durations_of_parts(input.place);
  for (const JsonValue each : elements(*input.json)) {
    if (is_run(each)) {
      const std::int64_t duration = durations_of_runs.add(ort_time_at(each, "dur", input.place));
      runs.push_back({ort_time_at(each, "pid", input.place), ort_time_at(each, "tid", input.place),
                      ort_time_at(each, "ts", input.place), duration});
    } else if (is_kernel(each)) {
      kernels.push_back(read_kernel(each, durations, input.place));
    } else if (is_provider_event(each)) {
      provider_events.push_back(read_provider_event(each, durations_of_parts, input.place));
    }
  }
  if (kernels.empty() || runs.empty()) {
    throw Error(Code::wrong_kind, "the profile has no run of a model",
                "set SessionOptions.enable_profiling, run the model, and pass the file that end_profiling() names",
                input.place);
  }
  add_peaks(kernels);
  const std::map<LayerKey, std::optional<LayerMemory>> memory = memory_by_layer(kernels);
  std::ranges::stable_sort(runs, {}, &Run::start);
  const std::size_t warmup = warmup_of(runs.size(), options, input.place);
  number_runs(kernels, runs);
  std::erase_if(kernels, [&](const OrtKernel& kernel) {
    return kernel.event.run >= 0 && static_cast<std::size_t>(kernel.event.run) < warmup;
  });
  if (kernels.empty()) {
    throw Error(Code::wrong_kind, "only warm-up runs of the profile have operators",
                "use --warmup 0, or a profile with more runs", input.place);
  }
  profile.warmup_runs = static_cast<std::int64_t>(warmup);
  profile.runs = static_cast<std::int64_t>(runs.size() - warmup);
  profile.run_amount = 0;
  for (std::size_t i = warmup; i < runs.size(); ++i) *profile.run_amount += runs[i].duration;
  subtract_bodies(kernels);
  if (add_parts(kernels, std::move(provider_events))) {
    profile.notes.push_back(
        note(Code::usage,
             "the provider reports more time for the parts of an operator than the operator took, as averages over all "
             "runs do; the operator's time is divided in proportion",
             input.place));
  }
  profile.layers = layers_of(kernels);
  for (Layer& layer : profile.layers) {
    const auto found = memory.find({layer.name, layer.op_type, layer.provider, layer.compiled});
    if (found != memory.end()) layer.memory = found->second;
  }
  return profile;
}

}  // namespace

std::int64_t ort_time_at(const JsonValue& event, std::string_view key, const Place& place) {
  const auto value = event.find(key);
  const bool fits = value && value->kind() == JsonKind::integer && value->integer() < amount_limit &&
                    value->integer() >= -amount_limit;
  if (!fits) corrupt_profile("an event of the profile has no " + std::string(key), end_the_session, place);
  return value->integer();
}

const ProfileReader ort_profile_reader = {"onnxruntime", "profile of ONNX Runtime", recognises_ort_profile,
                                          read_ort_profile};

}  // namespace whence::profile
