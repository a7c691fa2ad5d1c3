// Quantisers that take a list of node names under one keyword: ONNX Runtime's, and Olive's passes, which hand the list
// to it or compare the names of the outermost graph.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

// quantize_dynamic makes a MatMul and an Add of every Gemm first (onnx_model.py, replace_gemm_with_matmul), and looks
// for the MatMul in its list. quantize_static leaves a Gemm as it is, and ignores the other name.
std::string name_of_product(const view::SelectedNode& node) {
  return node.op_type == "Gemm" ? node.name + "_MatMul" : "";
}

std::string write_nodes_to_exclude(const Choice& choice) {
  return json_text(nlohmann::ordered_json{{"nodes_to_exclude", names_of(choice, name_of_product)}}, 2) + "\n";
}

}  // namespace

// Keywords of onnxruntime.quantization.quantize_static and quantize_dynamic. Bodies are quantised on demand only
// (EnableSubgraph), and then the names in them are honoured.
const Dialect ort_quant_dialect = {
    "ort-quant",    "keywords of onnxruntime.quantization, JSON", Bodies::seen, {}, nullptr, write_nodes_to_exclude,
    name_of_product};
const Dialect olive_dialect = {"olive",        "settings of Olive's ONNX quantisation passes, JSON",
                               Bodies::unseen, {},
                               nullptr,        write_nodes_to_exclude,
                               name_of_product};

}  // namespace whence::dialect
