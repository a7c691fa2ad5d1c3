#include "annotator/profile/openvino_counters.h"

#include "annotator/profile/csv_rows.h"

namespace whence::profile {
namespace {

const std::string run_benchmark = "run benchmark_app -report_type detailed_counters again";

bool recognises_counters(const ProfileInput& input) { return input.first_line.starts_with("layerName;execStatus;"); }

RuntimeProfile read_counters(const ProfileInput& input, const ReadOptions&) {
  RuntimeProfile profile;
  profile.runs = 1;
  profile.averaged = true;
  AmountSum sum(input.place);
  CsvRows rows(input.text(), ';');
  bool complete = false;
  while (rows.next()) {
    const std::string name = rows.at("layerName").value_or(""), status = rows.at("execStatus").value_or("");
    // The file has a table for each inference request, all with the same layers; only the first is read.
    if (name == "Total" && status.empty()) {
      complete = true;
      break;
    }
    if (status != "EXECUTED" && status != "Status.EXECUTED") continue;
    const auto time = amount_in(rows.at("realTime (ms)").value_or(""), 1000);
    if (!time) corrupt_profile("row " + std::to_string(rows.row()) + " has no realTime", run_benchmark, input.place);
    profile.layers.push_back({.name = name,
                              .op_type = rows.at("layerType").value_or(""),
                              .count = 1,
                              .amount = sum.add(*time),
                              .holds = {.names = {name}}});
  }
  if (!complete) {
    throw Error(Code::truncated_file, "the counters end without a Total row", run_benchmark, input.place);
  }
  if (profile.layers.empty()) {
    throw Error(Code::wrong_kind, "the counters have no executed layer", run_benchmark, input.place);
  }
  return profile;
}

}  // namespace

const ProfileReader openvino_counters_reader = {"openvino-counters", "table of OpenVINO's counters",
                                                recognises_counters, read_counters};

}  // namespace whence::profile
