// Writes lists of node names for quantisers that take them under one keyword: ONNX Runtime's, and Olive's passes, which
// pass the list to ONNX Runtime or compare it with names of the outermost graph.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

// quantize_dynamic first replaces every Gemm with MatMul and Add (onnx_model.py, replace_gemm_with_matmul), and looks
// up the MatMul in its list. quantize_static keeps the Gemm, and ignores the additional name.
std::string name_of_product(const view::SelectedNode& node) {
  return node.op_type == "Gemm" ? node.name + "_MatMul" : "";
}

std::string write_nodes_to_exclude(const Choice& choice) {
  return json_text(nlohmann::ordered_json{{"nodes_to_exclude", names_of(choice, name_of_product)}}, 2) + "\n";
}

}  // namespace

// Keywords of onnxruntime.quantization.quantize_static and quantize_dynamic. Bodies are quantised only with the option
// EnableSubgraph, and then their names are honoured.
const Dialect ort_quant_dialect = {
    "ort-quant",    "keywords of onnxruntime.quantization, JSON", Bodies::seen, {}, nullptr, write_nodes_to_exclude,
    name_of_product};
const Dialect olive_dialect = {"olive",        "settings of Olive's ONNX quantisation passes, JSON",
                               Bodies::unseen, {},
                               nullptr,        write_nodes_to_exclude,
                               name_of_product};

}  // namespace whence::dialect
