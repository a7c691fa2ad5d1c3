// Compares shape functions with PyTorch: reads one case per line and prints a verdict on the results of each operator.
//
//   archive | letters of each input, "a b 4; b" | a spec for each input | one set of sizes, "a=2 b=3" | another set ...
//
// The archive is recorded at each set of sizes. The shapes of the first recording are derived with a symbol for each
// letter, and must equal PyTorch's shapes at every set of sizes that PyTorch accepts.
#include <iostream>
#include <map>
#include <sstream>

#include "schema/recorder_api.h"
#include "schema/shape_functions.h"

extern "C" const whence::RecorderApi* whence_recorder();

namespace whence {
namespace {

using Sizes = std::map<char, std::int64_t>;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

struct Case {
  std::string archive;
  std::vector<std::vector<std::string>> letters;  // for each input
  std::vector<std::string> kinds;
  std::vector<Sizes> sets;
};

Case read_case(const std::string& line) {
  const std::vector<std::string> fields = split(line, '|');
  Case result{fields.at(0), {}, split(fields.at(2), ';'), {}};
  for (const std::string& input : split(fields.at(1), ';')) {
    auto& axes = result.letters.emplace_back();
    std::istringstream stream(input);
    for (std::string axis; stream >> axis;) axes.push_back(axis);
  }
  for (std::size_t i = 3; i < fields.size(); ++i) {
    Sizes& sizes = result.sets.emplace_back();
    std::istringstream stream(fields[i]);
    for (std::string size; stream >> size;) sizes[size[0]] = std::stoll(size.substr(2));
  }
  return result;
}

std::int64_t length(const std::string& axis, const Sizes& sizes) {
  const auto letter = sizes.find(axis[0]);
  return letter == sizes.end() ? std::stoll(axis) : letter->second;
}

bool record(const Case& each, const Sizes& sizes, Program& program) {
  ReadOptions options;
  options.path = each.archive;
  for (std::size_t i = 0; i < each.letters.size(); ++i) {
    InputSpec spec{"xyzw"[i] + std::string(), DType::float32, {}, {}, {}};
    if (each.kinds[i] != "float") spec.dtype = each.kinds[i] == "bool" ? DType::boolean : DType::int64;
    for (const std::string& axis : each.letters[i]) spec.dims.push_back(length(axis, sizes));
    if (each.kinds[i] == "zero") spec.low = 0, spec.high = 1;
    options.inputs.push_back(spec);
  }
  Diagnostics diagnostics;
  return whence_recorder()->read_torchscript(options, program, diagnostics);
}

class Check {
 public:
  Check(const Case& each, const std::vector<Program>& programs, const std::vector<Sizes>& sets)
      : case_(each), programs_(programs), sets_(sets) {}

  void run(std::ostream& out) {
    const Program& program = programs_[0];
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      Shape& shape = shapes_[program.inputs[i].value];
      for (const std::string& axis : case_.letters.at(i)) {
        shape.push_back(sets_[0].contains(axis[0]) ? Size::symbol(SymbolId(axis[0])) : Size(std::stoll(axis)));
      }
    }
    const auto is_mask = [&](ValueId id) { return program.values[id].type.dtype == DType::boolean; };
    const ShapeFacts facts{[&](ValueId id) { return shape_of(id); }, [&](ValueId id) { return number_of(id); }, is_mask,
                           [](SymbolId) { return SizeRange{0}; }};
    for (std::size_t at = 0; at < program.body.nodes.size(); ++at) {
      const Node& node = program.body.nodes[at];
      const auto shapes = shapes_of_results(node, facts);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const ValueId id = node.outputs[i];
        if (program.values[id].type.kind != ValueKind::tensor) {
          numbers_[id] = number_of_result(node, facts);
          continue;
        }
        out << ' ' << node.target << ':' << (shapes && i < shapes->size() ? verdict((*shapes)[i], at, i) : "unknown");
        if (shapes && i < shapes->size()) shapes_[id] = (*shapes)[i];
      }
    }
  }

 private:
  const Shape* shape_of(ValueId id) {
    const Type& type = programs_[0].values[id].type;
    if (shapes_.contains(id)) return &shapes_[id];
    if (type.kind != ValueKind::tensor) return &shapes_[id];
    if (!type.dims || programs_[0].values[id].source == ValueSource::node) return nullptr;
    for (const Dim& dim : *type.dims) shapes_[id].push_back(dim.size);
    return &shapes_[id];
  }
  Size number_of(ValueId id) { return numbers_.contains(id) ? numbers_[id] : Size::unknown(); }

  std::string verdict(const Shape& shape, std::size_t node, std::size_t output) const {
    bool known = true;
    for (std::size_t run = 0; run < programs_.size(); ++run) {
      const Node& there = programs_[run].body.nodes.at(node);
      const auto& dims = programs_[run].values[there.outputs.at(output)].type.dims;
      if (!dims || dims->size() != shape.size()) return "wrong rank";
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        known &= shape[axis].is_known();
        if (!shape[axis].is_known()) continue;
        const auto number =
            value_of(shape[axis], [&](SymbolId id) { return sets_[run].at(static_cast<char>(id.number())); });
        if (number == (*dims)[axis].size) continue;
        return "wrong, " +
               text_of(shape[axis], [](SymbolId id) { return std::string(1, static_cast<char>(id.number())); }) +
               " is not " + std::to_string((*dims)[axis].size);
      }
    }
    return known ? "right" : "partly";
  }

  const Case& case_;
  const std::vector<Program>& programs_;
  const std::vector<Sizes>& sets_;
  std::map<ValueId, Shape> shapes_;
  std::map<ValueId, Size> numbers_;
};

}  // namespace
}  // namespace whence

int main(int count, char**) {
  using namespace whence;
  if (count > 1) {
    for (const std::string_view name : operators_with_shapes()) std::cout << name << '\n';
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Case each = read_case(line);
    std::vector<Program> programs;
    std::vector<Sizes> sets;
    for (const Sizes& sizes : each.sets) {
      Program program;
      if (!record(each, sizes, program)) continue;
      if (!programs.empty() && program.body.nodes.size() != programs[0].body.nodes.size()) continue;
      programs.push_back(std::move(program));
      sets.push_back(sizes);
    }
    std::ostringstream answer;
    try {
      if (!programs.empty()) Check(each, programs, sets).run(answer);
    } catch (const std::exception& error) {
      answer.str(std::string(" error:") + error.what());
    }
    std::cout << programs.size() << answer.str() << '\n';
  }
}
