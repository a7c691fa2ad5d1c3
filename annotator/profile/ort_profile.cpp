#include "annotator/profile/ort_profile.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "schema/files/files.h"

namespace whence::profile {
namespace {

constexpr std::string_view kernel_suffix = "_kernel_time";
constexpr std::int64_t longest = std::int64_t{1} << 53;  // a time that JSON's numbers still hold; 285 years

struct Event {
  std::string name, op_type, provider;
  std::int64_t process = 0, thread = 0, start = 0, duration = 0;
  std::int64_t within = 0;  // part of the duration that events inside took
};

std::int64_t time_of(const nlohmann::json& event, const char* key, const Place& place) {
  const auto value = event.find(key);
  const bool fits = value != event.end() && value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() < longest) &&
                    value->get<std::int64_t>() < longest && value->get<std::int64_t>() >= -longest;
  if (!fits) {
    throw Error(Code::corrupt_file, "an event of the profile has no " + std::string(key),
                "run the session again, and end it with end_profiling()", place);
  }
  return value->get<std::int64_t>();
}

// Adds up durations, so that no sum of some of them can be more than JSON's numbers hold.
class Durations {
 public:
  explicit Durations(const Place& place) : place_(place) {}

  std::int64_t add(std::int64_t duration) {
    duration = std::max<std::int64_t>(0, duration);
    sum_ += duration;
    if (sum_ < longest) return duration;
    throw Error(Code::corrupt_file, "the events of the profile take more than 285 years",
                "run the session again, and end it with end_profiling()", place_);
  }

 private:
  const Place& place_;
  std::int64_t sum_ = 0;
};

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

bool holds_bodies(const Event& event) {
  return event.op_type == "If" || event.op_type == "Loop" || event.op_type == "Scan";
}

// While an If, Loop or Scan runs, the operators of its bodies run on the same thread: their time is taken out of its.
void take_out_bodies(std::vector<Event>& events) {
  std::vector<std::size_t> order(events.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const Event& event = events[i];  // if two start together, the one that holds the other comes first
    return std::tuple(event.process, event.thread, event.start, -event.duration, !holds_bodies(event));
  };
  std::ranges::stable_sort(order, {}, key);
  std::vector<std::size_t> open;
  for (const std::size_t i : order) {
    const Event& event = events[i];
    const auto holds = [&](const Event& outer) {
      return outer.process == event.process && outer.thread == event.thread &&
             event.start + event.duration <= outer.start + outer.duration;
    };
    while (!open.empty() && !holds(events[open.back()])) open.pop_back();
    if (!open.empty()) events[open.back()].within += event.duration;
    if (holds_bodies(event)) open.push_back(i);
  }
}

Event read_event(const nlohmann::json& json, Durations& durations, const Place& place) {
  Event event;
  event.name = text_of(json, "name");
  event.name.resize(event.name.size() - kernel_suffix.size());
  const auto arguments = json.find("args");
  if (arguments != json.end()) {
    event.op_type = text_of(*arguments, "op_name");
    event.provider = text_of(*arguments, "provider");
  }
  event.process = time_of(json, "pid", place);
  event.thread = time_of(json, "tid", place);
  event.start = time_of(json, "ts", place);
  event.duration = durations.add(time_of(json, "dur", place));
  return event;
}

nlohmann::json parse(const MappedFile& file, const Place& place) {
  nlohmann::json json = nlohmann::json::parse(file.text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  const std::size_t last = file.text().find_last_not_of(" \r\n\t");
  const bool cut = file.text().starts_with('[') && last != std::string_view::npos && file.text()[last] != ']';
  throw Error(cut ? Code::truncated_file : Code::corrupt_file, "the profile is not JSON",
              "run the session again, and end it with end_profiling()", place);
}

[[noreturn]] void no_profile(const std::string& what, const Place& place) {
  throw Error(Code::wrong_kind, what,
              "set SessionOptions.enable_profiling, run the model, and give the file that end_profiling() names",
              place);
}

}  // namespace

Result<OrtProfile> read_ort_profile(const std::string& path) {
  return guarded([&] {
    const Place place{.file = path, .stage = "read"};
    const auto file = MappedFile::open(path);
    const nlohmann::json json = parse(*file, place);
    if (!json.is_array()) no_profile("the file is not a profile of ONNX Runtime: not a list of events", place);
    OrtProfile profile;
    std::vector<Event> events;
    Durations durations(place), durations_of_runs(place);
    for (const nlohmann::json& each : json) {
      const std::string category = text_of(each, "cat"), name = text_of(each, "name");
      if (category == "Session" && name == "model_run") {
        ++profile.runs;
        profile.run_microseconds += durations_of_runs.add(time_of(each, "dur", place));
      }
      if (category == "Node" && name.ends_with(kernel_suffix)) events.push_back(read_event(each, durations, place));
    }
    if (events.empty() || profile.runs == 0) no_profile("the profile holds no run of a model", place);
    take_out_bodies(events);
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> known;
    for (const Event& event : events) {
      const auto [at, is_new] =
          known.try_emplace({event.name, event.op_type, event.provider}, profile.operators.size());
      if (is_new) profile.operators.push_back({event.name, event.op_type, event.provider});
      ProfiledOperator& to = profile.operators[at->second];
      ++to.count;
      to.microseconds += event.duration - event.within;
    }
    return profile;
  });
}

}  // namespace whence::profile
