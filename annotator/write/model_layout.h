// The layout of a model file around its weights: protobuf serialises everything but the initializers' bytes into
// strings; the lengths of the enclosing messages are computed by hand; then strings and spans of weights go out
// alternately, in protobuf's own field order, so that reading and writing the file with protobuf gives the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/files/files.h"
#include "schema/tensor_data.h"

namespace whence::write {

struct ModelLayout {
  struct Tensor {
    std::string head;            // TensorProto without raw_data
    const Bytes* raw = nullptr;  // its raw_data; null: it has none here
    std::uint64_t size() const;
  };

  std::string head;                              // ModelProto's fields before the graph
  std::vector<std::string_view> nodes;           // NodeProtos that lie elsewhere, if graph_head does not hold them
  std::shared_ptr<const MappedFile> nodes_file;  // the file in which they lie; null: in memory
  std::string graph_head;                        // GraphProto's fields before the initializers
  std::vector<Tensor> initializers;
  std::string graph_tail, tail;  // the fields after the initializers, and after the graph

  std::uint64_t size() const;  // bytes of the complete file
  void write(AtomicFile& file) const;

 private:
  std::uint64_t graph_size() const;
};

}  // namespace whence::write
