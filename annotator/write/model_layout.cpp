#include "annotator/write/model_layout.h"

#include "annotator/onnx_file/wire_out.h"

namespace whence::write {

namespace wire = onnx_file::wire;

namespace {

// Field numbers of onnx.proto.
constexpr std::uint32_t model_graph = 7;
constexpr std::uint32_t graph_initializer = 5;
constexpr std::uint32_t tensor_raw_data = 9;

}  // namespace

std::uint64_t ModelLayout::Tensor::size() const {
  return raw == nullptr ? head.size() : head.size() + wire::field_head_size(tensor_raw_data, raw->size()) + raw->size();
}

std::uint64_t ModelLayout::graph_size() const {
  std::uint64_t total = graph_head.size() + graph_tail.size();
  for (const Tensor& tensor : initializers) {
    total += wire::field_head_size(graph_initializer, tensor.size()) + tensor.size();
  }
  return total;
}

std::uint64_t ModelLayout::size() const {
  const std::uint64_t graph = graph_size();
  return head.size() + wire::field_head_size(model_graph, graph) + graph + tail.size();
}

void ModelLayout::write(AtomicFile& file) const {
  std::string frame = head;
  wire::append_field_head(frame, model_graph, graph_size());
  frame += graph_head;
  for (const Tensor& tensor : initializers) {
    wire::append_field_head(frame, graph_initializer, tensor.size());
    frame += tensor.head;
    if (tensor.raw == nullptr) continue;
    wire::append_field_head(frame, tensor_raw_data, tensor.raw->size());
    file.write(frame);
    frame.clear();
    file.write(*tensor.raw);
  }
  file.write(frame);
  file.write(graph_tail);
  file.write(tail);
}

}  // namespace whence::write
