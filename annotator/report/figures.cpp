#include "annotator/report/figures.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "schema/files/files.h"
#include "schema/json_document.h"
#include "schema/result.h"

namespace whence::report {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

// Reads fields of one JSON file. A missing field or another type is an error.
class Fields {
 public:
  Fields(JsonValue object, const Place& place) : object_(object), place_(place) {
    if (!object.is_object()) refuse("an entry is not an object");
  }

  JsonValue operator[](std::string_view key) const {
    const auto value = object_.find(key);
    if (!value) refuse("the field '" + std::string(key) + "' is missing");
    return *value;
  }
  bool has(std::string_view key) const {
    const auto value = object_.find(key);
    return value && !value->is_null();
  }
  std::string text(std::string_view key) const {
    const JsonValue value = (*this)[key];
    if (!value.is_string()) refuse("the field '" + std::string(key) + "' is not a text");
    return std::string(value.text());
  }
  double number(std::string_view key) const {
    const JsonValue value = (*this)[key];
    if (!value.is_number()) refuse("the field '" + std::string(key) + "' is not a number");
    return value.floating();
  }
  double number_or(std::string_view key, double if_null) const {
    return (*this)[key].is_null() ? if_null : number(key);
  }
  Fields object(std::string_view key) const { return {(*this)[key], place_}; }

  template <class Visit>
  void each(std::string_view key, const Visit& visit) const {
    const JsonValue list = (*this)[key];
    if (!list.is_array()) refuse("the field '" + std::string(key) + "' is not a list");
    for (std::size_t i = 0; i < list.size(); ++i) visit(Fields(list[i], place_));
  }

  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> texts;
    const JsonValue list = (*this)[key];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list.is_array() || !list[i].is_string())
        refuse("the field '" + std::string(key) + "' is not a list of texts");
      texts.emplace_back(list[i].text());
    }
    return texts;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(
        Code::wrong_kind, "not the JSON of a measurement: " + what,
        "write it with this version: whence profile --format json, whence accuracy --json, or whence sensitivity "
        "--json",
        place_);
  }

 private:
  JsonValue object_;
  const Place& place_;
};

// A time in microseconds is shown in milliseconds; cycles, bytes and nodes are counts.
void add_profile(const Fields& json, Figures& to) {
  to.kind = "profile";
  to.model = json.text("file");
  const std::string unit = json.text("unit");
  const bool time = unit == "microseconds";
  const double runs = std::max(1.0, json.number("runs")), scale = (time ? 1e-3 : 1.0) / runs;
  const std::string shown = time ? "ms" : unit == "bytes" ? "B" : unit;
  Measure total{
      .key = "time " + unit, .title = time ? "time of a run" : unit + " of a run", .unit = shown, .values = {}};
  json.each("modules", [&](const Fields& module) {
    const std::string path = module.text("path");
    const double amount = module.number("total") * scale;
    total.values[path] = amount;
    if (!module.has("at_most")) return;
    const double most = module.number("at_most") * scale;
    if (most > amount) to.remarks[path] = "at most " + number_text(most) + (shown.empty() ? "" : " " + shown);
  });
  to.summary.push_back(number_text(json.number("operator_time") * scale) + " " + shown + " a run in operators, " +
                       number_text(json.number("unattributed") * scale) + " " + shown + " without a known module");
  to.measures.push_back(std::move(total));
}

// A module that is called several times has the figures of its worst call.
void add_accuracy(const Fields& json, Figures& to) {
  to.kind = "accuracy";
  to.model = json.text("model");
  Measure relative{.key = "relative error", .title = "relative error", .unit = "", .values = {}},
      sqnr{.key = "sqnr", .title = "SQNR", .unit = "dB", .values = {}};
  json.each("modules", [&](const Fields& call) {
    const std::string path = call.text("module"), status = call.text("status");
    if (status == "not observable") {
      if (!relative.values.contains(path)) to.remarks[path] = status;
      return;
    }
    const double error = call.number_or("relative", infinite);
    const auto [entry, is_new] = relative.values.try_emplace(path, error);
    if (!is_new && !(error > entry->second)) return;
    entry->second = error;
    sqnr.values[path] = call.number_or("sqnr_db", error == 0 ? infinite : -infinite);
    to.remarks.erase(path);
    if (status != "equal") to.remarks[path] = status == "passing" ? "differs in passing" : status;
  });
  to.summary.push_back(json.text("settings"));
  to.summary.push_back("a relative difference above " + number_text(json.number("tolerance")) + " counts");
  if (json.has("first")) {
    const std::string module = json.object("first").text("module");
    to.summary.push_back("first module that differs: " + (module.empty() ? "(root)" : module));
  } else {
    to.summary.emplace_back("no module differs");
  }
  to.measures.push_back(std::move(relative));
  to.measures.push_back(std::move(sqnr));
}

void add_sensitivity(const Fields& json, Figures& to) {
  to.kind = "sensitivity";
  to.model = json.text("model");
  Measure error{.key = "sensitivity error", .title = "error if quantised", .unit = "", .values = {}},
      saved{.key = "sensitivity saved", .title = "saved if quantised", .unit = "B", .values = {}},
      time{.key = "sensitivity time", .title = "time if quantised", .unit = "%", .values = {}};
  json.each("modules", [&](const Fields& module) {
    const std::string path = module.text("module"), status = module.text("status");
    if (status != "measured") {
      to.remarks[path] = status;
      return;
    }
    error.values[path] = module.number_or("error", infinite);
    saved.values[path] = module.number("saved");
    if (module.has("time_saved")) time.values[path] = -100 * module.number("time_saved");
  });
  const JsonValue left_out = json["left_out"];
  if (!left_out.is_boolean()) json.refuse("the field 'left_out' is not a truth value");
  const Fields together = json.object("together");
  to.summary.push_back(json.text("quantiser") + ", each module " + (left_out.flag() ? "left out" : "quantised") +
                       " alone; all modules quantised: error " + number_text(together.number_or("error", infinite)));
  if (json.has("choice")) {
    const Fields choice = json.object("choice");
    for (const std::string& module : choice.texts("excluded")) to.remarks[module] = "unquantised in the choice";
    to.summary.push_back("budget " + choice.text("budget"));
  }
  for (Measure* measure : {&error, &saved, &time}) {
    if (!measure->values.empty()) to.measures.push_back(std::move(*measure));
  }
}

}  // namespace

Figures read_figures(const std::string& path) {
  const Place place{.file = path, .stage = "figures"};
  const auto file = MappedFile::open(path);
  const auto document = JsonDocument::parse(file->text());
  if (!document) {
    throw Error(Code::wrong_kind, "the file is not JSON",
                "pass the output of whence profile --format json, whence "
                "accuracy --json, or whence sensitivity --json",
                place);
  }
  const Fields json(document->root(), place);
  Figures figures;
  figures.file = base_name(path);
  if (json.has("operator_time")) {
    add_profile(json, figures);
  } else if (json.has("observable")) {
    add_accuracy(json, figures);
  } else if (json.has("quantiser")) {
    add_sensitivity(json, figures);
  } else {
    json.refuse("none of the fields operator_time, observable and quantiser is there");
  }
  return figures;
}

}  // namespace whence::report
