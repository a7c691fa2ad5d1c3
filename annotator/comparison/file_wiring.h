// FileWiring: which operations compute the values that the nodes of a file read. It places nodes that the match leaves
// open, because they serve several equal operations, and finds nodes that read other results than their operations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/comparison/wiring.h"
#include "annotator/comparison/written_out.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/dtype.h"
#include "schema/flat_map.h"

namespace whence::comparison {

// Returns the dtype to which a node converts; undefined for other nodes than Cast.
DType conversion_of(const onnx_file::OnnxNode& node);
// Returns true for a conversion of numbers to integers or conditions, which keep less than the numbers.
bool truncates(const onnx_file::OnnxNode& node);

// The recorded operations of a node.
struct Placed {
  std::vector<std::int32_t> operations = {};  // empty: unknown
  std::vector<std::int32_t> own = {};         // those of them for which no other node stands; empty: all
  std::vector<std::int32_t> folded = {};      // those of them whose numbers are in its weight or bias
  bool is_certain = false;                    // by the match
  bool is_size = false;                       // computes sizes: says nothing about the program's values
  double share = 1;                           // of the operation's channels that the node computes
  bool is_plain = false;                      // a product or norm into which nothing was folded

  const std::vector<std::int32_t>& own_operations() const { return own.empty() ? operations : own; }
};

class FileWiring {
 public:
  // Returns true for a quantiser whose integers end where an operation cuts off numbers.
  using IsSaturated = std::function<bool(const onnx_file::OnnxNode& quantiser, std::int32_t operation)>;

  // All must outlive this object, which adds to `placed`, by node. The caches of `written` are known to be read by the
  // attentions that extend them.
  FileWiring(const std::vector<const onnx_file::OnnxNode*>& nodes, const onnx_file::OnnxGraph& graph,
             const WrittenOut& written, const Wiring& program, const derivation::FileTensors& tensors,
             std::vector<Placed>& placed);

  // Gives each node without operations those that read what it reads, and that fit.
  void place_remaining(const std::function<bool(const onnx_file::OnnxNode&, std::int32_t operation)>& fits);
  // Returns the operations of the node that reads the result of a scaling by one number, perhaps after movements; empty
  // if it is none, or several nodes read it.
  std::vector<std::int32_t> operations_after(std::size_t node) const;
  // Returns the operations of the only node that reads the result, perhaps after movements; empty for several.
  std::vector<std::int32_t> operations_reading(std::size_t node) const;
  // Returns true for a node whose first input is computed by an operator on numbers, or holds real numbers of the file.
  bool reads_numbers(std::size_t node) const;
  // Returns the operations that compute a value, before movements; empty if they are unknown or uncertain.
  std::vector<std::int32_t> certain_makers_of(std::string_view value) const {
    const Source source = source_of(value);
    return source.is_certain ? source.operations : std::vector<std::int32_t>();
  }
  // As certain_makers_of(), with those that read these and for which a quantiser between stands, as its integers end
  // where they cut off numbers.
  std::vector<std::int32_t> certain_makers_of(std::string_view value, const IsSaturated& is_saturated) const;
  // Returns the input of the program that an input of the file is; nullopt for caches.
  std::optional<std::size_t> input_of(std::string_view name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? std::nullopt : std::optional(found->second);
  }
  // Returns the operations of a node; empty if they are unknown or uncertain.
  std::vector<std::int32_t> certain_operations_of(const onnx_file::OnnxNode& node) const {
    const auto number = numbers_.find(&node);
    const bool is_known = number != numbers_.end() && placed_[number->second].is_certain;
    return is_known ? placed_[number->second].own_operations() : std::vector<std::int32_t>();
  }
  // Returns what a node reads that its operations do not; "" if nothing. Between both, a quantiser may stand for an
  // operation that `is_saturated` accepts.
  std::string difference(std::size_t node, const IsSaturated& is_saturated) const;
  // Returns true for a node whose two operands are results of one operation, of those that its operations read, where
  // they read results of others as well.
  bool reads_one_of_several(std::size_t node) const;
  // Returns what the rows of a table are chosen by, if the program chooses them by one of its inputs and the file by
  // anything else; "" otherwise.
  std::string other_rows(std::size_t node) const;
  // Returns the value by which a node chooses rows, before nodes that keep it. Requires two inputs.
  std::string_view rows_of(const onnx_file::OnnxNode& node) const;
  // Returns true if a quantiser that reads the result of a node before the operation stands for it.
  bool is_dropped(std::int32_t operation, const IsSaturated& is_saturated) const;

 private:
  struct Source {
    std::vector<std::int32_t> operations;  // empty: unknown or constant
    std::string_view value;                // before movements
    bool is_certain = false;               // an input, or the result of a node that is certain and computes numbers
    bool is_arithmetic = false;            // the result of a node that computes numbers
    bool is_split = false;                 // a part of `value`
    std::vector<const onnx_file::OnnxNode*> movements = {};  // between that result and the value, and the node itself
  };
  Source source_of(std::string_view value) const;
  // Returns true for the result of an operator on numbers, and for elements that others chose from it.
  bool holds_numbers(std::string_view value, int depth) const;
  // Keeps the candidates that are among the readers, or else those that are one of them in another call of the module:
  // equal calls are not distinguished.
  void keep_common(std::set<std::int32_t>& candidates, const std::set<std::int32_t>& readers) const;

  const std::vector<const onnx_file::OnnxNode*>& nodes_;
  const Wiring& program_;
  const derivation::FileTensors& tensors_;
  std::vector<Placed>& placed_;
  FlatMap<const onnx_file::OnnxNode*, std::size_t> numbers_;
  FlatMap<std::string_view, std::size_t> inputs_;
};

}  // namespace whence::comparison
