#include "annotator/write/model_layout.h"

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/page_release.h"
#include "annotator/onnx_file/wire_out.h"

namespace whence::write {

namespace proto = onnx_file::proto;
namespace wire = onnx_file::wire;

std::uint64_t ModelLayout::Tensor::size() const {
  return raw == nullptr ? head.size()
                        : head.size() + wire::field_head_size(proto::tensor::raw_data, raw->size()) + raw->size();
}

std::uint64_t ModelLayout::graph_size() const {
  std::uint64_t total = graph_head.size() + graph_tail.size();
  for (const std::string_view node : nodes)
    total += wire::field_head_size(proto::graph::node, node.size()) + node.size();
  for (const Tensor& tensor : initializers) {
    total += wire::field_head_size(proto::graph::initializer, tensor.size()) + tensor.size();
  }
  return total;
}

std::uint64_t ModelLayout::size() const {
  const std::uint64_t graph = graph_size();
  return head.size() + wire::field_head_size(proto::model::graph, graph) + graph + tail.size();
}

void ModelLayout::write(AtomicFile& file) const {
  std::string frame = head;
  wire::append_field_head(frame, proto::model::graph, graph_size());
  onnx_file::PageRelease pages(nodes_file);
  for (const std::string_view node : nodes) {
    wire::append_field_head(frame, proto::graph::node, node.size());
    file.write(frame);
    frame.clear();
    file.write(node);
    if (nodes_file) pages.was_read(node.size());
  }
  frame += graph_head;
  for (const Tensor& tensor : initializers) {
    wire::append_field_head(frame, proto::graph::initializer, tensor.size());
    frame += tensor.head;
    if (tensor.raw == nullptr) continue;
    wire::append_field_head(frame, proto::tensor::raw_data, tensor.raw->size());
    file.write(frame);
    frame.clear();
    file.write(*tensor.raw);
  }
  file.write(frame);
  file.write(graph_tail);
  file.write(tail);
}

}  // namespace whence::write
