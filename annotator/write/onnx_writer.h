// Writes a Graph as an ONNX file. Structure goes through protobuf; weights are spliced in as spans from where they
// lie (the archive), so writing needs no second copy of them in memory.
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
  const metadata::NodeKeys* keys = nullptr;                        // node metadata beside the stamps
  ExternalData external = {};                                // axes and shapes stay in the model file, however large
  std::shared_ptr<const UserFunctions> functions = nullptr;  // functions; those that nodes call are written
  std::map<std::string, std::int64_t> domain_versions = {};  // opset imports; a domain not listed has 1
  bool initializers_as_inputs = false;        // list them among the graph's inputs too, as files before IR version 4 do
  std::uint64_t protobuf_limit = 2147483647;  // the most bytes that protobuf serialises; a unit test sets it lower
};

// Throws Error: cannot_write (nothing is left behind), unsupported_feature for a dtype that ONNX lacks, over_limit for
// a graph that passes 2 GiB without its weights, or more tensors than files can be open.
void write_onnx(const graph::Graph& graph, const std::string& path, const WriteOptions& options);

}  // namespace whence::write
