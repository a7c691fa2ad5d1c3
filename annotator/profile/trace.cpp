#include "annotator/profile/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "schema/json_text.h"
#include "schema/module_path.h"
#include "schema/printable.h"

namespace whence::profile {
namespace {

using Json = nlohmann::ordered_json;
using Track = std::pair<std::int64_t, std::int64_t>;  // process, thread

struct Slice {
  LayerEvent event;
  const ProfiledLayer* layer = nullptr;

  std::int64_t end() const { return event.start + event.duration; }
};

// A module, open from its first operator to its last.
struct OpenModule {
  std::size_t row = 0;
  std::string call;
  std::int64_t start = 0, end = 0;
};

Json slice_json(const Track& track, std::string_view kind, const std::string& name, std::int64_t start,
                std::int64_t end) {
  return {{"ph", "X"},           {"cat", kind}, {"name", printable(name)}, {"pid", track.first},
          {"tid", track.second}, {"ts", start}, {"dur", end - start}};
}

// Writes the slices of one track, in order of their start.
class TrackWriter {
 public:
  TrackWriter(const ModuleProfile& profile, Track track, Json& events)
      : profile_(profile), track_(track), events_(events) {}

  void add(const Slice& slice) {
    // Operators nested in another are from a body of If, Loop or Scan; their modules are nested in that operator.
    while (!holders_.empty() && !within(slice, holders_.back().slice)) leave_holder();
    const bool other_run = holders_.empty() && run_ && *run_ != slice.event.run;
    if (other_run) close_to(0);
    run_ = slice.event.run;
    enter(slice);
    add_operator(slice);
    holders_.push_back({slice, open_.size()});
  }

  void finish() {
    while (!holders_.empty()) leave_holder();
    close_to(0);
  }

 private:
  struct Holder {
    Slice slice;
    std::size_t depth = 0;  // modules open around it
  };

  static bool within(const Slice& inner, const Slice& outer) {
    return inner.event.start >= outer.event.start && inner.end() <= outer.end() && inner.event.start < outer.end();
  }

  // Only the operator's own module has a known call, not the modules around it.
  static bool same_call(const OpenModule& a, const OpenModule& b) {
    return a.row == b.row && (a.call == b.call || a.call.empty() || b.call.empty());
  }

  std::size_t around_holder() const { return holders_.empty() ? 0 : holders_.back().depth; }

  void leave_holder() {
    close_to(holders_.back().depth);
    const std::int64_t end = holders_.back().slice.end();
    holders_.pop_back();
    for (OpenModule& module : open_) module.end = std::max(module.end, end);
  }

  void close_to(std::size_t depth) {
    for (; open_.size() > depth; open_.pop_back()) {
      const OpenModule& module = open_.back();
      const std::string& path = profile_.tree.rows[module.row].path;
      std::string name = path.empty() ? "model" : last_segment(path);
      if (!module.call.empty() && module.call != "0") name += "#" + module.call;
      Json slice = slice_json(track_, "module", name, module.start, module.end);
      slice["args"] = {{"module", path}, {"type", profile_.tree.rows[module.row].type}};
      events_.push_back(std::move(slice));
    }
  }

  // Opens the operator's modules that are not open yet, and closes open modules to which it does not belong.
  void enter(const Slice& slice) {
    std::vector<OpenModule> path;
    const LayerModules& modules = slice.layer->modules;
    for (std::optional<std::size_t> at = modules.row; at; at = profile_.tree.rows[*at].parent) {
      path.push_back({*at, at == modules.row ? modules.call : "", slice.event.start, slice.end()});
    }
    std::ranges::reverse(path);
    std::size_t common = 0;
    while (common < std::min(path.size(), open_.size()) && same_call(path[common], open_[common])) ++common;
    // A module in a body may also be open around the holder.
    close_to(std::max(common, around_holder()));
    for (OpenModule& module : open_) module.end = std::max(module.end, slice.end());
    for (std::size_t i = 0; i < common; ++i) {
      if (open_[i].call.empty()) open_[i].call = path[i].call;
    }
    for (std::size_t i = common; i < path.size(); ++i) open_.push_back(path[i]);
  }

  void add_operator(const Slice& slice) {
    const Layer& runtime_layer = slice.layer->runtime_layer;
    const LayerModules& modules = slice.layer->modules;
    Json json =
        slice_json(track_, "operator", runtime_layer.op_type.empty() ? runtime_layer.name : runtime_layer.op_type,
                   slice.event.start, slice.end());
    json["args"] = {{"node", runtime_layer.name},
                    {"provider", runtime_layer.provider},
                    {"module", modules.row ? Json(profile_.tree.rows[*modules.row].path) : Json()},
                    {"call", or_null(modules.call)},
                    {"rule", name_of(modules.rule)}};
    events_.push_back(std::move(json));
  }

  const ModuleProfile& profile_;
  const Track track_;
  Json& events_;
  std::vector<OpenModule> open_;
  std::vector<Holder> holders_;
  std::optional<std::int64_t> run_;
};

std::map<Track, std::vector<Slice>> slices_of(const ModuleProfile& profile) {
  std::map<Track, std::vector<Slice>> tracks;
  std::int64_t next = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    if (profile.wall) {
      for (const LayerEvent& event : layer.runtime_layer.events)
        tracks[{event.process, event.thread}].push_back({event, &layer});
    } else {
      const std::int64_t duration = layer.runtime_layer.amount / profile.runs;
      tracks[{1, 1}].push_back({{1, 1, next, duration}, &layer});
      next += duration;
    }
  }
  for (auto& [track, slices] : tracks) {
    std::ranges::stable_sort(slices, {},
                             [](const Slice& each) { return std::tuple(each.event.start, -each.event.duration); });
  }
  return tracks;
}

Json name_json(const char* what, const Track& track, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", track.first}, {"tid", track.second}, {"args", {{"name", name}}}};
}

}  // namespace

std::string to_trace(const ModuleProfile& profile) {
  if (profile.unit == Unit::bytes || profile.unit == Unit::nodes) {
    throw Error(Code::usage, "the profile has " + std::string(name_of(profile.unit)) + ", but a trace needs time",
                "pass a profile of time", {.file = profile.profile, .stage = "profile"});
  }
  Json events = Json::array();
  for (const auto& [track, slices] : slices_of(profile)) {
    events.push_back(
        name_json("process_name", track, printable(profile.file) + " (" + std::string(profile.source) + ")"));
    events.push_back(
        name_json("thread_name", track,
                  profile.wall ? "thread " + std::to_string(track.second) : "an average run, layers in order"));
    TrackWriter writer(profile, track, events);
    for (const Slice& slice : slices) writer.add(slice);
    writer.finish();
  }
  const Json json = {{"displayTimeUnit", "ms"},
                     {"otherData",
                      {{"exporter", std::string("whence ") + WHENCE_VERSION},
                       {"profile", profile.profile},
                       {"unit", name_of(profile.unit)}}},
                     {"traceEvents", std::move(events)}};
  return json_text(json) + "\n";
}

}  // namespace whence::profile
