// Placement: the nodes of a model by device, as rules over modules say, and what that means: parameters and time of
// each device, values that cross from one to another.
//
// The first rule that holds a node's module decides. Of a node that belongs to several modules, one is enough.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::placement {

struct Rule {
  std::string device, glob;  // a pattern: a module and all below it (view/module_globs.h)
};

// "gpu=encoder.**". Throws Error(usage) for anything else, and for an unknown device.
Rule parse_rule(const std::string& text);

struct DeviceShare {
  std::string device;
  std::int64_t nodes = 0;
  std::int64_t weights = 0, weight_bytes = 0;  // initializers that its nodes read; one may be read on several devices
  std::optional<std::int64_t> microseconds;    // by a profile, a run's time in modules all of whose nodes are here
};

// The values that go from nodes of one device to nodes of another: each is a copy.
struct Crossing {
  std::string from, to;
  std::int64_t values = 0;
};

// A node that ONNX Runtime put on a provider that does not serve its device.
struct Difference {
  std::string node, module, device, provider;
};

// The nodes held against the list of ONNX Runtime.
struct Comparison {
  std::int64_t as_placed = 0;           // nodes on a provider of their device
  std::int64_t gone = 0;                // nodes that are not in the list: fused, folded or renamed
  std::vector<Difference> differences;  // in file order
};

struct Placement {
  std::vector<std::string> devices;  // by node, in the order of all_nodes()
  std::vector<std::string> modules;  // likewise
  std::vector<DeviceShare> shares;   // in the order of the rules
  std::vector<Crossing> crossings;
  std::string settings;                        // for session.layer_assignment_settings
  std::int64_t of_several = 0;                 // nodes of modules that rules put on different devices
  std::int64_t unattributed_microseconds = 0;  // by a profile, a run's time on no known device
  std::optional<Comparison> compared;
};

// `otherwise`: the device of nodes that no rule holds; "none" leaves them to ONNX Runtime; empty: there may be none.
// Errors: usage for a glob that no module matches, for a rule all of whose nodes earlier rules take, and for nodes
// without a device.
Placement place_nodes(const onnx_file::OnnxSummary& model, const std::vector<Rule>& rules, const std::string& otherwise,
                      const metadata::Recorded* recorded);

// The placement that a file has by its entries `layer_ann`, which are taken as devices. Throws Error(usage) when it has
// none.
Placement placement_in(const onnx_file::OnnxSummary& model, const metadata::Recorded* recorded);

// Compares with what ONNX Runtime chose: JSON of get_provider_graph_assignment_info() (docs/dialects.md). Errors: those
// of a file that cannot be read; wrong_kind for JSON of another form; sidecar_mismatch when no name is one of the
// model's, now or before annotate.
Comparison compare_with_providers(const onnx_file::OnnxSummary& model, const Placement& placement,
                                  const std::string& path, Diagnostics& notes);

std::string to_text(const Placement& placement);
std::string to_json(const Placement& placement);

}  // namespace whence::placement
