// The layout of a model file around its weights. Protobuf serialises everything except the initializers' bytes into
// strings; the lengths of the enclosing messages are computed here; then strings and spans of weights are written
// alternately, in protobuf's field order. Reading and writing the file with protobuf therefore gives the same bytes.
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
    const Bytes* raw = nullptr;  // its raw_data; null if this file does not contain it
    std::uint64_t size() const;
  };

  std::string head;                              // ModelProto's fields before the graph
  std::vector<std::string_view> nodes;           // NodeProtos stored elsewhere; empty if graph_head contains them
  std::shared_ptr<const MappedFile> nodes_file;  // the file that contains `nodes`; null if they are in memory
  std::string graph_head;                        // GraphProto's fields before the initializers
  std::vector<Tensor> initializers;
  std::string graph_tail, tail;  // the fields after the initializers, and after the graph

  std::uint64_t size() const;  // bytes of the complete file
  void write(AtomicFile& file) const;

 private:
  std::uint64_t graph_size() const;
};

}  // namespace whence::write
