#include "annotator/validation/baseline.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "annotator/functions/flat_summary.h"
#include "schema/files/files.h"

namespace whence::validation {

using origin::Confidence;
using origin::confidence_count;

namespace {

using Json = nlohmann::json;

constexpr std::int64_t max_nodes = std::int64_t{1} << 53;  // up to here every JSON reader reads integers exactly

bool is_count(const Json& object, const std::string& key) {
  return object.contains(key) && object[key].is_number_integer() && object[key] >= 0 && object[key] <= max_nodes;
}

bool has_counts(const Json& row) {
  return row.is_object() && std::ranges::all_of(std::array{"nodes", "covered", "exact"},
                                                [&](const char* key) { return is_count(row, key); });
}

origin::Counts counts_of(const Json& row) {
  origin::Counts counts;
  for (std::size_t i = 0; i < confidence_count; ++i) {
    const std::string key(origin::name_of(static_cast<Confidence>(i)));
    if (is_count(row, key)) counts.by[i] = row[key];
  }
  // A report that was written by hand may contain only the compared figures.
  const std::int64_t covered = row["covered"], nodes = row["nodes"];
  if (counts.covered() != covered) counts.by[static_cast<std::size_t>(Confidence::matched)] = covered - counts.by[0];
  if (counts.total() < nodes) counts.by[static_cast<std::size_t>(Confidence::unattributed)] = nodes - counts.covered();
  return counts;
}

std::optional<NamingCounts> naming_counts(const Json& report) {
  if (!report.contains("naming") || !report["naming"].is_object()) return std::nullopt;
  NamingCounts counts{};
  for (std::size_t i = 0; i < naming_count; ++i) {
    const std::string key(name_of(static_cast<Naming>(i)));
    // Reports of older versions lack this key.
    if (static_cast<Naming>(i) == Naming::names_only && !report["naming"].contains(key)) continue;
    if (!is_count(report["naming"], key)) return std::nullopt;
    counts[i] = report["naming"][key];
  }
  return counts;
}

Baseline from_report(const Json& report, const std::string& path) {
  const bool is_report = report.is_object() && report.contains("coverage") && has_counts(report["coverage"]) &&
                         report.contains("modules") && report["modules"].is_array() &&
                         std::ranges::all_of(report["modules"], has_counts);
  if (!is_report) {
    throw Error(Code::wrong_kind, "not a report of `whence validate --json`",
                "write one for the good file, or pass that ONNX file itself", {.file = path, .stage = "validate"});
  }
  Baseline baseline;
  const bool named = report.contains("file") && report["file"].is_string();
  baseline.file = named ? report["file"].get<std::string>() : base_name(path);
  baseline.all = counts_of(report["coverage"]);
  for (const Json& row : report["modules"]) {
    const bool has_path = row.contains("path") && row["path"].is_string();
    baseline.modules.emplace_back(has_path ? row["path"].get<std::string>() : "", counts_of(row));
  }
  baseline.naming = naming_counts(report);
  return baseline;
}

Baseline from_model(const std::string& path, const Program* program) {
  const onnx_file::OnnxSummary model = value_of(functions::read_flat_summary(path));
  std::optional<metadata::Recorded> recorded;
  if (program != nullptr && metadata::belongs_to(model, *program)) recorded.emplace(*program);
  const CheckContext context{model, onnx_file::all_nodes(model.graph), program, recorded ? &*recorded : nullptr};
  Coverage coverage = coverage_of(context);
  return {base_name(path), coverage.all, std::move(coverage.modules), naming_of(context).counts};
}

// The protobuf message of a model never begins with a brace or bracket.
bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

}  // namespace

Baseline read_baseline(const std::string& path, const Program* program) {
  const auto file = MappedFile::open(path);
  if (!is_json(file->text())) return from_model(path, program);
  return from_report(Json::parse(file->text(), nullptr, /*allow_exceptions=*/false), path);
}

}  // namespace whence::validation
