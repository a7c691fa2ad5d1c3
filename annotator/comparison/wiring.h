// Wiring: which operations of a program read the results of which others. A node of a file must read results of the
// operations that its own operations read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "annotator/derivation/program_forms.h"

namespace whence::comparison {

class Wiring {
 public:
  Wiring(const Program& program, const std::vector<derivation::ProgramForm>& forms);

  // Returns true if an operation of `readers` reads a result of one of `sources`, perhaps moved or converted between,
  // or if they have one in common. Within one module, one more operation may be between, because the match
  // distinguishes neighbours there only roughly; nor does it distinguish the calls of one module. An input of the
  // program counts as the operation `of_input`.
  bool connects(const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& readers) const;
  // As connects(), with any number of operations between that compute no numbers. `selections`: only those that choose
  // elements in order.
  enum class Between : std::uint8_t { selections, conditions };
  bool reach(const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& readers, Between between) const;
  // Returns the operations that read a result of one of these, and these themselves.
  std::set<std::int32_t> readers_of(const std::vector<std::int32_t>& sources) const;
  // As readers_of(), with those that read what operations chose from a result.
  std::set<std::int32_t> readers_of_parts(const std::vector<std::int32_t>& sources) const;
  // Returns the operations of which one of these reads a result.
  std::set<std::int32_t> sources_of(const std::vector<std::int32_t>& readers) const;
  // Returns true if output `index` of the program is a result of one of these, perhaps moved or converted.
  bool is_output_of(std::size_t index, const std::vector<std::int32_t>& sources) const;
  std::size_t outputs() const { return outputs_.size(); }

  bool are_of_one_module(std::int32_t one, std::int32_t other) const;
  // Returns the same operation in the first call of its module.
  std::int32_t role_of(std::int32_t operation) const;

  // Returns the input of the program with this name.
  std::optional<std::size_t> input_named(std::string_view name) const;
  static std::int32_t of_input(std::size_t index) { return -1 - static_cast<std::int32_t>(index); }

 private:
  void add_recorded(const Program& program);
  void add(const graph::Graph& graph, std::unordered_map<graph::GraphValueId, std::set<std::int32_t>> sources);

  std::int32_t module_of(std::int32_t operation) const;
  bool reads(std::int32_t reader, std::int32_t source) const;

  std::unordered_map<std::int32_t, std::set<std::int32_t>> sources_, readers_;  // by operation
  // By operation: its module, and the same operation in the first call of the module.
  std::vector<std::int32_t> modules_, roles_;
  std::unordered_map<std::int32_t, std::set<std::int32_t>> sources_of_role_;  // roles by role
  std::set<std::int32_t> computing_, deciding_;  // operations with arithmetic, and with other than selections
  std::vector<std::set<std::int32_t>> outputs_;
  std::vector<std::string> inputs_;  // names
};

}  // namespace whence::comparison
