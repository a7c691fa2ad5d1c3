// Placement: the devices of a model's nodes by rules over modules, with the weights and time of each device and the
// values that cross between devices.
//
// The first rule that matches a node's module decides; for a node of several modules, the module of its main operation,
// or else any of them.
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

// Parses "gpu=encoder.**". Throws Error(usage) for other texts, and for an unknown device.
Rule parse_rule(const std::string& text);

struct DeviceShare {
  std::string device;
  std::int64_t nodes = 0;
  std::int64_t weights = 0, weight_bytes = 0;  // initializers that its nodes read; several devices may read the same
  std::optional<std::int64_t> microseconds;    // time per run of modules with all nodes on this device, by a profile
};

// The values that go from nodes of one device to nodes of another device; each is copied.
struct Crossing {
  std::string from, to;
  std::int64_t values = 0;
};

// A node that ONNX Runtime assigned to a provider that does not serve its device.
struct Difference {
  std::string node, module, device, provider;
};

// The comparison with ONNX Runtime's list of providers.
struct Comparison {
  std::int64_t as_placed = 0;           // nodes on a provider of their device
  std::int64_t not_listed = 0;          // nodes that are not in the list: fused, folded or renamed
  std::int64_t unknown_device = 0;      // nodes on a provider whose devices are unknown
  std::vector<Difference> differences;  // in file order
};

struct Placement {
  std::vector<std::string> devices;  // by node, in the order of all_nodes()
  std::vector<std::string> modules;  // by node, in the same order
  std::vector<DeviceShare> shares;   // in the order of the rules
  std::vector<Crossing> crossings;
  std::string settings;                        // for session.layer_assignment_settings
  std::int64_t of_several = 0;                 // nodes of several modules with different devices
  std::int64_t unattributed_microseconds = 0;  // time per run without a known device, by a profile
  std::optional<Comparison> compared;
};

// Places nodes by rules. `default_device` is the device of nodes that no rule matches; "none" leaves them to ONNX
// Runtime; empty makes them an error. Errors: usage for a glob that no module matches, for a rule that decides for no
// node, and for nodes without a device.
Placement place_nodes(const onnx_file::OnnxSummary& model, const std::vector<Rule>& rules,
                      const std::string& default_device, const metadata::Recorded* recorded);

// Returns the placement in a file, from its entries `layer_ann`, which are read as devices. Throws Error(usage) if it
// has none.
Placement placement_in(const onnx_file::OnnxSummary& model, const metadata::Recorded* recorded);

// Compares with ONNX Runtime's choice: JSON of get_provider_graph_assignment_info() (docs/dialects.md). Errors: as
// reading a file; wrong_kind for JSON of another form; sidecar_mismatch if no name is that of a node, now or before
// annotate.
Comparison compare_with_providers(const onnx_file::OnnxSummary& model, const Placement& placement,
                                  const std::string& path, Diagnostics& notes);

std::string to_text(const Placement& placement);
std::string to_json(const Placement& placement);

}  // namespace whence::placement
