// Writes a Graph as an ONNX file. Structure goes through protobuf; weights are spliced in as spans from where they
// lie (the archive), so writing needs no second copy of them in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/write/interface_metadata.h"

namespace whence {

struct WriteOptions {
  int opset = 18;
  int ir_version = 10;
  std::string producer_version = {};
  std::vector<std::pair<std::string, std::string>> metadata = {};  // of the model
  InterfaceMetadata interface = {};                                // of the graph and its values
  bool stamp_origins = true;                                       // node metadata pkg.whence.op
  // External data: used when the file would pass 2 GiB, or always when asked for. One file beside the model.
  bool external_data = false;
  std::uint64_t protobuf_limit = 2147483647;  // tests lower it
};

// Throws Error: cannot_write (nothing is left behind), unsupported_feature for a dtype that ONNX lacks.
void write_onnx(const Graph& graph, const std::string& path, const WriteOptions& options);

}  // namespace whence
