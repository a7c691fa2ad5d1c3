// TrialProgram: a recorded program run once, with made-up results of its products. Only what stands between products is
// computed: the weights of products are not read, and their rounding in a file does not matter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/weights.h"
#include "annotator/graph/graph.h"
#include "schema/program.h"
#include "schema/tensor_data.h"

namespace whence::comparison {

// Limits of the values that each side of a trial run computes.
inline constexpr std::int64_t most_tried_elements = 1 << 21;               // of a value
inline constexpr std::uint64_t most_tried_bytes = std::uint64_t{1} << 28;  // of all values

// Kinds of operators whose results are made up.
enum class ProductKind : std::uint8_t { none, matrix, sum_of_products, convolution, transposed_convolution, recurrent };
// `inputs`: their number. An Einsum of more than two factors is none.
ProductKind product_kind(std::string_view op_type, std::size_t inputs = 2);

// Return the equation of an Einsum without spaces; "" for other operators.
std::string equation_of(std::string_view stated);
std::string equation_of(const graph::GraphNode& node);

// Returns the tensor with numbers in floating point as float32.
TensorData in_single(TensorData data);
// Returns true if all elements are equal within `tolerance` of the largest, in their order. Numbers of `expected` that
// are infinite or near to it, as in masks, are not compared.
bool are_near(const TensorData& own, const TensorData& expected, double tolerance);
// Returns the rows of a made-up table.
TensorData made_up_rows(std::int32_t role, const TensorData& indices, const std::vector<std::int64_t>& row);
// Adds one number for each channel; nullopt if the sizes differ.
std::optional<TensorData> with_bias(const TensorData& sums, const TensorData& bias, ProductKind kind);

class TrialProgram {
 public:
  struct Product {
    const graph::GraphNode* node = nullptr;
    ProductKind kind = ProductKind::none;
    std::int32_t operation = 0;
    std::size_t slot = 0;                  // of the operand that is no weight
    const TensorData* operand = nullptr;   // null: unknown
    std::vector<TensorData> results = {};  // made up, without a bias; empty: unknown
  };

  // An operator that is not computed. Its results are made up if the file has a node that takes them.
  struct Uncomputed {
    const graph::GraphNode* node = nullptr;
    std::int32_t role = 0;  // of its operation
    std::vector<TensorData> results = {};
  };
  using HasNode = std::function<bool(const graph::GraphNode& node, std::int32_t role)>;

  // Tables in `tables`, by role of the operation that chooses their rows, are made up as well. `has_node` returns true
  // if nodes of the file stand for an operator. All must outlive this object.
  TrialProgram(const Program& program, const derivation::Weights& weights, const Wiring& wiring,
               std::set<std::int32_t> tables, HasNode has_node);

  bool is_known() const { return graph_ != nullptr; }
  const graph::Graph& graph() const { return *graph_; }
  // Returns null for an unknown value.
  const TensorData* value(graph::GraphValueId id);
  // Returns a value that was computed from the program's inputs or made-up results; null for others.
  const TensorData* computed(graph::GraphValueId id) {
    return live_.contains(id) && values_.contains(id) ? value(id) : nullptr;
  }
  const std::vector<Product>& products() const { return products_; }
  const std::vector<Uncomputed>& uncomputed() const { return uncomputed_; }
  // Returns the result of a product and of operations that follow it, if one value alone leaves them; null otherwise.
  const TensorData* result_of(const Product& product, const std::set<std::int32_t>& operations);
  // Returns what operations with these roles read that depends on parameters and constants alone, also as it is before
  // it was moved.
  std::vector<const TensorData*> read_alone(const std::set<std::int32_t>& roles);
  // Returns those of the operations that a product's weight and bias may hold, and such as cut off numbers if asked.
  std::set<std::int32_t> linear_ones(const std::set<std::int32_t>& operations, bool may_cut) const;

 private:
  void make_inputs(const Program& program);
  void run(const graph::GraphNode& node);
  void compute(const graph::GraphNode& node);
  void run_product(const graph::GraphNode& node, ProductKind kind);
  void make_up(Product& product) const;
  void make_up(const graph::GraphNode& node);
  bool read_the_same(const graph::GraphNode& one, const graph::GraphNode& other);
  bool choose_rows(const graph::GraphNode& node);
  void keep(graph::GraphValueId id, TensorData data);
  const Parameter* parameter_of(graph::GraphValueId id) const;
  std::optional<std::vector<std::int64_t>> sizes_of(graph::GraphValueId id) const;
  std::int32_t role_of(const graph::GraphNode& node) const;

  const derivation::Weights& weights_;
  const Wiring& wiring_;
  std::set<std::int32_t> tables_;
  HasNode has_node_;
  std::unique_ptr<const graph::Graph> graph_;
  std::vector<std::vector<std::int32_t>> uses_;
  std::unordered_map<graph::GraphValueId, Parameter> parameters_;
  std::set<graph::GraphValueId> live_, weights_alone_;  // depend on inputs; on parameters, but on no input
  std::unordered_map<graph::GraphValueId, std::optional<TensorData>> values_;
  std::vector<Product> products_;
  std::vector<Uncomputed> uncomputed_;
  std::uint64_t bytes_ = 0;
};

}  // namespace whence::comparison
