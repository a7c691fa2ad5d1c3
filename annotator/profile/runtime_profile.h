// RuntimeProfile: a runtime's measurements of one model, the result of every reader. Code after the readers does not
// depend on the runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::profile {

enum class Unit : std::uint8_t { microseconds, cycles, bytes, nodes };
std::string_view name_of(Unit unit);

// The ONNX nodes of a layer, by the names that the runtime kept: of nodes, or of their outputs; or the modules, if the
// runtime ran the PyTorch program and not the ONNX file.
struct HeldNodes {
  std::vector<std::string> names = {};
  std::vector<std::string> modules = {};  // qualified names
  std::vector<std::string> within = {};   // nodes of the operator that this is a part of, for unknown `names`
  // First and last node of a region: nodes between them in the file may be in it.
  std::vector<std::pair<std::string, std::string>> regions = {};
  bool cut = false;  // the runtime omitted names

  bool empty() const { return names.empty() && modules.empty() && within.empty() && regions.empty(); }
};

// One execution of a layer in microseconds, if the runtime states the time.
struct LayerEvent {
  std::int64_t process = 0, thread = 0, start = 0, duration = 0;
  std::int64_t run = 0;  // number of the run, including warm-up runs; -1: outside all runs
};

// Bytes: the largest of all executions, including warm-up runs.
struct LayerMemory {
  std::int64_t inputs = 0, parameters = 0, outputs = 0, temporary = 0;
  std::optional<std::int64_t> peak = {};  // in use by the session while the layer ran

  bool operator==(const LayerMemory&) const = default;
};

// One operator of the graph that ran, with all its executions.
struct Layer {
  std::string name = {};      // the runtime's name
  std::string op_type = {};   // after the runtime's fusions
  std::string provider = {};  // "CPUExecutionProvider"; empty if there is only one
  std::string compiled =
      {};                   // name of the operator that a provider made from several nodes, if this is one or its part
  std::int64_t count = 0;   // executions; 0: it is in the graph but did not run
  std::int64_t amount = 0;  // sum of all executions in the profile's unit, without nested bodies
  HeldNodes holds = {};     // empty: only the name is known
  std::vector<std::size_t> before = {}, after = {};  // producer layers, consumer layers
  std::vector<LayerEvent> events = {};
  std::optional<LayerMemory> memory = {};
};

struct RuntimeProfile {
  std::string_view source;  // name of the reader
  Unit unit = Unit::microseconds;
  std::vector<Layer> layers;  // in the order in which they first ran
  std::int64_t runs = 0;      // number of runs; amounts are sums over them
  bool averaged = false;      // the runtime gives averages: amounts are of one run
  std::int64_t warmup_runs = 0;
  std::optional<std::int64_t> run_amount;  // sum of all runs, including time between layers
  Diagnostics notes = {};                  // what the user must know about the amounts
};

}  // namespace whence::profile
