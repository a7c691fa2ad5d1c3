// Writes a Graph as an ONNX file. Protobuf serialises the structure; weights are copied as spans directly from their
// source (the archive), so writing needs no second copy of them in memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/write/interface_metadata.h"
#include "annotator/write/user_functions.h"
#include "whence/options.h"

namespace whence::write {

struct WriteOptions {
  int opset = graph::default_opset;
  std::string producer_version = {};
  std::vector<std::pair<std::string, std::string>> metadata = {};  // model metadata
  InterfaceMetadata interface = {};                                // metadata of the graph and its values
  bool stamp_origins = true;                                       // node metadata pkg.whence.op
  const metadata::NodeKeys* keys = nullptr;                        // node metadata besides the stamps
  ExternalData external = {};                                      // axes and shapes always stay in the model file
  std::shared_ptr<const UserFunctions> functions = nullptr;        // functions; only called ones are written
  std::map<std::string, std::int64_t> domain_versions = {};        // opset imports; default version 1
  bool initializers_as_inputs = false;        // list them as graph inputs too, like files before IR version 4
  std::uint64_t protobuf_limit = 2147483647;  // largest message that protobuf serialises; a unit test lowers it
};

// Throws Error: cannot_write (no file is left), unsupported_feature for a dtype that ONNX lacks, over_limit for a graph
// over 2 GiB without its weights, or for more external files than may be open.
void write_onnx(const graph::Graph& graph, const std::string& path, const WriteOptions& options);

}  // namespace whence::write
