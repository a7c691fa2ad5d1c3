// Sizes as PyTorch computes with them while it traces a program: numbers are computed with silently, while each
// operation on a symbolic size becomes an fx node, `mul`, `eq` and so on, which takes a name even where nobody reads
// it. Source: c10/core/SymInt.cpp; torch/fx/experimental/proxy_tensor.py (__sym_dispatch__) of PyTorch 2.13.
//
// Such an operation has a number as its result where sympy can say it, so a size is held as a product here: of a number
// and of what sympy writes of the rest (symbols, sums of them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/read/exported/part.h"
#include "annotator/read/exported/retrace/fx_graph.h"

namespace whence {

struct TracedSize {
  std::int64_t number = 1;
  std::vector<std::string_view> unknown = {};  // sorted; empty: a number
  std::optional<std::int64_t> example = {};    // of it all; none: it follows from the data
  std::string text = {};                       // as fx prints it: "8", or a reference to its node

  bool is_number() const { return unknown.empty(); }
  bool is(std::int64_t value) const { return is_number() && number == value; }
};

TracedSize number(std::int64_t value);
inline TracedSize unknown_size() { return {1, {"?"}, {}, {}}; }
TracedSize size_of_archive(const Part& size, std::string text);  // of {"as_int": 8} or {"as_expr": ...}
TracedSize product(const TracedSize& a, const TracedSize& b);    // which nobody traces

std::string text_of(const std::vector<TracedSize>& shape);  // "[%sym_size_int, 8]"

struct Layout {
  std::vector<TracedSize> sizes, strides;
  TracedSize offset = number(0);
  bool known() const { return sizes.size() == strides.size(); }
  void pack();  // in row-major order
};

class SizeArithmetic {
 public:
  explicit SizeArithmetic(FxGraph& graph) : graph_(graph) {}

  TracedSize mul(const TracedSize& a, const TracedSize& b);
  TracedSize add(const TracedSize& a, const TracedSize& b, const char* name = "add");
  TracedSize ask(const std::string& tensor, std::int64_t axis);  // a size that nobody has asked for
  void remember(FxId computed);                                  // what the archive computes
  // Where the same is read by another name what is computed is taken out, but only once it has kept what it reads.
  void read_instead(const std::string& computed, const std::string& same);
  std::string note(const char* op, std::vector<std::string> arguments);
  TracedSize floordiv(const TracedSize& a, const TracedSize& b);
  TracedSize mod(const TracedSize& a, const TracedSize& b);
  TracedSize at_least_one(const TracedSize& a);
  // "eq", "ne", "lt", "gt": whether it holds, as far as that is known.
  std::optional<bool> compare(const char* how, const TracedSize& a, const TracedSize& b);
  bool or_false(const char* how, const TracedSize& a, const TracedSize& b) {
    return compare(how, a, b).value_or(false);
  }
  bool or_true(const char* how, const TracedSize& a, const TracedSize& b) { return compare(how, a, b).value_or(true); }

  // What ATen asks of tensors.
  TracedSize element_count(const std::vector<TracedSize>& sizes);
  bool contiguous(const Layout& tensor, const TracedSize& count);
  // A shape in which one size may be -1, which is worked out.
  void infer(std::vector<TracedSize>& shape, const TracedSize& count);
  // Whether a tensor can be seen in another shape where it lies.
  bool viewable(const Layout& tensor, const std::vector<TracedSize>& shape);
  // That a shape can be spread to another: torch/_refs (_broadcast_shapes).
  void broadcast_to(const std::vector<TracedSize>& shape, const std::vector<TracedSize>& other);

 private:
  std::string trace(const char* op, const TracedSize& a, const TracedSize& b);
  std::string compute(const char* op, const TracedSize& a, const TracedSize& b);
  std::string earlier(const TracedSize& size, const TracedSize& read) const;
  std::optional<bool> contiguous_or_unknown(const Layout& tensor, const TracedSize& count);

  FxGraph& graph_;
  std::unordered_map<FxId, TracedSize> products_;
  std::unordered_map<std::string, std::string> computed_;  // by what is computed: its first node
};

}  // namespace whence
