// RuntimeProfile: what a runtime measured of one model, whichever runtime it was. Every reader makes one; nothing
// behind the readers asks which runtime wrote the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whence::profile {

enum class Unit : std::uint8_t { microseconds, cycles, bytes, nodes };
std::string_view name_of(Unit unit);

// The ONNX nodes that a layer was made of, by the names that the runtime kept: of nodes, or of tensors that they make.
struct HeldNodes {
  std::vector<std::string> names = {};
  // A region of which the runtime names only the ends: nodes between them in the file may be in it.
  std::vector<std::pair<std::string, std::string>> regions = {};
  bool cut = false;  // the runtime left names out

  bool empty() const { return names.empty() && regions.empty(); }
};

// One execution of a layer, where the runtime says when it was: microseconds.
struct LayerEvent {
  std::int64_t process = 0, thread = 0, start = 0, duration = 0;
  std::int64_t run = 0;  // number of the run, warm-up runs counted; -1: outside all
};

// Bytes; of several executions, the largest, those of warm-up runs among them.
struct LayerMemory {
  std::int64_t inputs = 0, parameters = 0, outputs = 0, temporary = 0;
  std::optional<std::int64_t> peak = {};  // in use by the session while the layer ran

  bool operator==(const LayerMemory&) const = default;
};

// One entry of the graph that ran: all its executions together.
struct Layer {
  std::string name = {};      // as the runtime calls it
  std::string op_type = {};   // after the runtime's fusions
  std::string provider = {};  // "CPUExecutionProvider"; empty where there is only one
  std::int64_t count = 0;     // executions; 0: it stands in the graph and did not run
  std::int64_t amount = 0;    // sum of all executions, in the profile's unit; without what bodies inside took
  HeldNodes holds = {};       // empty: the name is all that is known
  std::vector<std::size_t> before = {}, after = {};  // layers that it reads from, and that read from it
  std::vector<LayerEvent> events = {};
  std::optional<LayerMemory> memory = {};
};

struct RuntimeProfile {
  std::string_view source;  // name of the reader
  Unit unit = Unit::microseconds;
  std::vector<Layer> layers;  // in the order in which they first ran
  std::int64_t runs = 0;      // how often the model ran; amounts are those of all these runs
  bool averaged = false;      // the runtime gives averages: amounts are of one run
  std::int64_t warmup_runs = 0;
  std::optional<std::int64_t> run_amount;  // sum of all runs, what lies between layers included
};

}  // namespace whence::profile
