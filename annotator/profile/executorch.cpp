#include "annotator/profile/executorch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "annotator/profile/csv_rows.h"
#include "annotator/text/python_literal.h"

namespace whence::profile {
namespace {

using text::PythonLiteral;

const std::string write_again =
    "write inspector.to_dataframe().to_csv(FILE, sep=\"\\t\") of an Inspector with etdump_path and etrecord";

// Events of the runtime itself; their times include those of operators.
constexpr std::string_view run_event = "Method::execute", delegate_event = "DELEGATE_CALL";
constexpr std::array framework_events = {run_event, std::string_view("Method::init"),
                                         std::string_view("Program::load_method"), std::string_view("OPERATOR_CALL")};
constexpr std::string_view native_prefix = "native_call_", own_kernels = "ExecuTorch";

struct EventRow {
  std::string name, backend;
  std::vector<double> times = {};         // of each run
  std::vector<std::int64_t> starts = {};  // of each run; empty in tables of older versions
  std::vector<std::string> modules = {};  // of its operators
};

// The runs that executed the same operators.
struct EventBlock {
  std::string name;
  std::vector<EventRow> rows = {};
  const EventRow* run = nullptr;  // the event of the complete run
};

struct TimeUnit {
  Unit unit;
  double factor;  // to microseconds
};

// Reads the unit from the column "avg (ms)".
TimeUnit unit_of(const ProfileInput& input) {
  constexpr std::string_view before = "\tavg (";
  const std::size_t at = input.first_line.find(before);
  const std::string_view rest = at == std::string_view::npos ? "" : input.first_line.substr(at + before.size());
  const std::string_view word = rest.substr(0, rest.find(')'));
  if (word == "ns") return {Unit::microseconds, 1e-3};
  if (word == "us") return {Unit::microseconds, 1};
  if (word == "ms") return {Unit::microseconds, 1e3};
  if (word == "s") return {Unit::microseconds, 1e6};
  if (word == "cycles") return {Unit::cycles, 1};
  throw Error(Code::wrong_kind, "the table does not state the unit of its times", write_again, input.place);
}

[[noreturn]] void corrupt_row(const CsvRows& rows, const std::string& what, const Place& place) {
  corrupt_profile("row " + std::to_string(rows.row()) + " " + what, write_again, place);
}

// Returns the numbers of a list; empty for an event without times.
std::vector<double> times_in(const CsvRows& rows, const Place& place) {
  const auto list = text::parse_python_literal(rows.at("raw").value_or(""));
  if (!list || list->kind != PythonLiteral::Kind::sequence) corrupt_row(rows, "has no list of times", place);
  std::vector<double> times;
  for (const PythonLiteral& each : list->items) {
    if (each.text == "None") return {};
    double time = 0;
    const char* const end = each.text.data() + each.text.size();
    const auto [read, failure] = std::from_chars(each.text.data(), end, time);
    if (failure != std::errc() || read != end || !std::isfinite(time)) corrupt_row(rows, "has an invalid time", place);
    times.push_back(time);
  }
  return times;
}

std::vector<std::int64_t> starts_in(const CsvRows& rows) {
  const auto list = text::parse_python_literal(rows.at("start_time").value_or(""));
  std::vector<std::int64_t> starts;
  if (!list) return starts;
  for (const PythonLiteral& each : list->items) {
    std::int64_t start = 0;
    std::from_chars(each.text.data(), each.text.data() + each.text.size(), start);
    starts.push_back(start);
  }
  return starts;
}

// Returns the innermost module of each operator: {'aten_add': {'L__self__': ('', 'Net'), 'L__self__fc': ('fc',
// '...')}}.
std::vector<std::string> modules_in(const CsvRows& rows, const Place& place) {
  const auto operators = text::parse_python_literal(rows.at("module_hierarchy").value_or(""));
  if (!operators || operators->kind != PythonLiteral::Kind::dict) corrupt_row(rows, "has no module_hierarchy", place);
  std::vector<std::string> modules;
  for (const PythonLiteral& stack : operators->items) {
    if (stack.items.empty()) continue;  // an operator of no module has None
    const PythonLiteral& innermost = stack.items.back();
    if (innermost.items.empty()) corrupt_row(rows, "has an invalid module_hierarchy", place);
    const std::string& module = innermost.items.front().text;
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  }
  return modules;
}

std::vector<EventBlock> read_blocks(const ProfileInput& input) {
  CsvRows rows(input.text(), '\t');
  for (const char* column : {"raw", "module_hierarchy"}) {
    if (rows.has(column)) continue;
    throw Error(Code::wrong_kind,
                "the table has no column " + std::string(column) + ", as Inspector.save_data_to_tsv()", write_again,
                input.place);
  }
  std::vector<EventBlock> blocks;
  bool complete = true;  // the event of the run is the last of its block
  while (rows.next()) {
    const std::string block = rows.at("event_block_name").value_or("");
    if (complete || blocks.back().name != block) blocks.push_back({.name = block});
    EventRow row{.name = rows.at("event_name").value_or(""), .backend = rows.at("delegate_backend_name").value_or("")};
    complete = row.name == run_event;
    if (rows.at("is_delegated_op") == "True") continue;
    row.times = times_in(rows, input.place);
    if (row.times.empty()) continue;
    row.starts = starts_in(rows);
    row.modules = modules_in(rows, input.place);
    blocks.back().rows.push_back(std::move(row));
  }
  for (EventBlock& block : blocks) {
    const auto run = std::ranges::find(block.rows, run_event, &EventRow::name);
    if (run != block.rows.end()) block.run = &*run;
  }
  std::erase_if(blocks, [](const EventBlock& block) { return block.run == nullptr; });
  return blocks;
}

// A run: its block, and its number among the block's runs.
struct Run {
  std::int64_t start = 0;
  std::size_t block = 0, number = 0;
};

std::vector<Run> runs_of(const std::vector<EventBlock>& blocks) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const EventRow& run = *blocks[i].run;
    for (std::size_t n = 0; n < run.times.size(); ++n) {
      runs.push_back({n < run.starts.size() ? run.starts[n] : 0, i, n});
    }
  }
  std::ranges::stable_sort(runs, {}, &Run::start);
  return runs;
}

// Returns the sum of the counted runs in the profile's unit.
std::int64_t sum_of(const EventRow& row, const std::vector<std::size_t>& counted, double factor, AmountSum& sum,
                    const Place& place) {
  double time = 0;
  for (const std::size_t number : counted) time += std::max(0.0, row.times[number]) * factor;
  if (!(time < static_cast<double>(amount_limit)))
    corrupt_profile("a time of " + row.name + " overflows", write_again, place);
  return sum.add(std::llround(time));
}

Layer layer_of(const EventRow& row, std::int64_t count, std::int64_t amount) {
  const bool delegate = row.name == delegate_event;
  Layer layer{.name = row.name, .provider = std::string(own_kernels), .count = count, .amount = amount};
  if (row.name.starts_with(native_prefix)) layer.op_type = row.name.substr(native_prefix.size());
  if (delegate && !row.backend.empty()) layer.op_type = layer.provider = row.backend;
  layer.holds.modules = row.modules;
  return layer;
}

bool recognises_executorch(const ProfileInput& input) {
  return input.first_line.find("event_block_name\tevent_name\t") != std::string_view::npos;
}

RuntimeProfile read_executorch(const ProfileInput& input, const ReadOptions& options) {
  const TimeUnit unit = unit_of(input);
  const std::vector<EventBlock> blocks = read_blocks(input);
  const std::vector<Run> runs = runs_of(blocks);
  if (runs.empty()) {
    throw Error(Code::wrong_kind, "the table has no run of a method", "write the ETDump after the method ran",
                input.place);
  }
  const auto count = static_cast<std::int64_t>(runs.size());
  const std::int64_t warmup = options.warmup_runs.value_or(count > 1 ? 1 : 0);
  if (warmup >= count) {
    throw Error(Code::usage, "the profile has " + std::to_string(count) + " runs, all of them warm-up",
                "use a smaller --warmup", input.place);
  }
  std::vector<std::vector<std::size_t>> counted(blocks.size());  // by block: numbers of its runs
  for (const Run& run : std::vector(runs.begin() + warmup, runs.end())) counted[run.block].push_back(run.number);
  RuntimeProfile profile;
  profile.unit = unit.unit;
  profile.runs = count - warmup;
  profile.warmup_runs = warmup;
  profile.run_amount = 0;
  AmountSum sum(input.place), run_sum(input.place);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (counted[i].empty()) continue;
    *profile.run_amount += sum_of(*blocks[i].run, counted[i], unit.factor, run_sum, input.place);
    for (const EventRow& row : blocks[i].rows) {
      if (std::ranges::find(framework_events, row.name) != framework_events.end()) continue;
      if (row.times.size() != blocks[i].run->times.size()) {
        corrupt_profile("event " + row.name + " has not one time for each run", write_again, input.place);
      }
      profile.layers.push_back(layer_of(row, static_cast<std::int64_t>(counted[i].size()),
                                        sum_of(row, counted[i], unit.factor, sum, input.place)));
    }
  }
  if (profile.layers.empty()) {
    throw Error(Code::wrong_kind, "no run of the table has an operator", write_again, input.place);
  }
  if (std::ranges::all_of(profile.layers, [](const Layer& layer) { return layer.holds.empty(); })) {
    throw Error(Code::wrong_kind, "no operator of the table has a module: the Inspector had no ETRecord", write_again,
                input.place);
  }
  return profile;
}

}  // namespace

const ProfileReader executorch_reader = {"executorch", "table of ExecuTorch's events", recognises_executorch,
                                         read_executorch};

}  // namespace whence::profile
