#include "annotator/profile/ort_compiled.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "annotator/profile/ort_profile.h"

namespace whence::profile {
namespace {

constexpr std::string_view parent_key = "parent_ort_event_name";

// Returns "/query/MatMul" for "OV::/query/MatMul".
std::string_view without_prefix(std::string_view name) {
  constexpr std::string_view separator = "::";
  const std::size_t at = name.find(separator);
  return at == std::string_view::npos || name.substr(0, at).find('/') != std::string_view::npos
             ? name
             : name.substr(at + separator.size());
}

// Returns the durations of the parts in the operator's time; false if they had to be scaled.
bool fit(std::int64_t available, std::vector<std::int64_t>& durations) {
  const std::int64_t sum = std::accumulate(durations.begin(), durations.end(), std::int64_t{0});
  if (sum <= available) return true;
  std::int64_t before = 0, used = 0;
  for (std::int64_t& duration : durations) {
    before += duration;
    const auto until = static_cast<std::int64_t>(static_cast<double>(available) * static_cast<double>(before) /
                                                 static_cast<double>(sum));
    duration = std::max<std::int64_t>(0, std::min(until, available) - used);
    used += duration;
  }
  return false;
}

}  // namespace

bool is_provider_event(const JsonValue& event) {
  if (text_at(event, "cat") != "Kernel") return false;
  const auto arguments = event.find("args");
  return arguments && text_at(*arguments, parent_key).ends_with(kernel_suffix);
}

ProviderEvent read_provider_event(const JsonValue& event, AmountSum& durations, const Place& place) {
  const JsonValue arguments = event.find("args").value_or(JsonValue());
  ProviderEvent found;
  found.parent = text_at(arguments, parent_key);
  found.parent.resize(found.parent.size() - kernel_suffix.size());
  found.name = without_prefix(text_at(event, "name"));
  found.op_type = text_at(arguments, "ov_node_type");
  if (found.op_type.empty()) found.op_type = text_at(arguments, "op_name");
  found.start = ort_time_at(event, "ts", place);
  found.duration = durations.add(ort_time_at(event, "dur", place));
  return found;
}

bool is_compiled(const OrtKernel& kernel) {
  return !kernel.op_type.empty() && kernel.name.starts_with(kernel.provider + "_" + kernel.op_type + "_");
}

bool add_parts(std::vector<OrtKernel>& kernels, std::vector<ProviderEvent> events) {
  std::map<std::string_view, std::vector<std::size_t>> by_name;  // kernels in order of their start
  for (std::size_t i = 0; i < kernels.size(); ++i) by_name[kernels[i].name].push_back(i);
  for (auto& [name, numbers] : by_name) {
    std::ranges::stable_sort(numbers, {}, [&](std::size_t i) { return kernels[i].event.start; });
  }
  std::ranges::stable_sort(events, {}, &ProviderEvent::start);
  std::map<std::size_t, std::vector<const ProviderEvent*>> parts;  // by kernel
  for (const ProviderEvent& event : events) {
    const auto named = by_name.find(event.parent);
    if (named == by_name.end()) continue;
    // The last execution that began before the event: the events of runs that are left out have none.
    const auto after =
        std::ranges::upper_bound(named->second, event.start, {}, [&](std::size_t i) { return kernels[i].event.start; });
    if (after != named->second.begin()) parts[*std::prev(after)].push_back(&event);
  }
  bool scaled = false;
  std::vector<OrtKernel> added;
  for (const auto& [number, events_of] : parts) {
    OrtKernel& kernel = kernels[number];
    std::vector<std::int64_t> durations;
    for (const ProviderEvent* event : events_of) durations.push_back(event->duration);
    scaled |= !fit(kernel.event.duration - kernel.within, durations);
    kernel.compiled = kernel.name;
    LayerEvent event = kernel.event;
    for (std::size_t i = 0; i < durations.size(); ++i) {
      event.duration = durations[i];
      added.push_back({.name = events_of[i]->name,
                       .op_type = events_of[i]->op_type,
                       .provider = kernel.provider,
                       .event = event,
                       .compiled = kernel.name});
      event.start += event.duration;  // one after the other: times of scaled parts are not those of the run
      kernel.within += event.duration;
    }
  }
  kernels.insert(kernels.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  return scaled;
}

}  // namespace whence::profile
