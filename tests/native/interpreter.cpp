// Interprets programs as live C++ modules and exports them; tests/random generates too many to compile. A program is a
// graph from torch.jit.script. The interpreter calls LibTorch's operators like a C++ forward: sizes are plain integers,
// and whence's trace records only tensors.
//
//   interpreter    reads requests from standard input, one per line:
//   ARCHIVE OUTPUT NAME=SHAPE:NUMBERS[:AXIS=SIZE,...] ...     x=2,3:0.5,1,1.5,2,2.5,3:0=b,1=s; k=:3 is an integer
//
// For each request it prints diagnostics and then a line "exit CODE".
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>
#include <whence/record.h>

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;

class Interpreter {
 public:
  explicit Interpreter(const std::string& archive)
      : module_(torch::jit::load(archive)), graph_(module_.get_method("forward").graph()->copy()) {
    torch::jit::Inline(*graph_);
  }

  c10::IValue operator()(const std::vector<at::Tensor>& inputs) {
    values_.clear();
    values_[graph_->inputs()[0]] = module_._ivalue();
    for (std::size_t i = 0; i < inputs.size(); ++i) values_[graph_->inputs()[i + 1]] = inputs[i];
    run(graph_->block());
    return values_.at(graph_->outputs()[0]);
  }

 private:
  void run(const Block* block) {
    for (const Node* node : block->nodes()) run(node);
  }

  void run(const Node* node) {
    if (node->kind() == torch::jit::prim::Constant) {
      // An inlined function is a constant without a value.
      if (const auto value = torch::jit::toIValue(node->output())) values_[node->output()] = *value;
    } else if (node->kind() == torch::jit::prim::If) {
      const Block* branch = node->blocks()[values_.at(node->input()).toBool() ? 0 : 1];
      run(branch);
      assign(node->outputs(), values(branch->outputs()));
    } else if (node->kind() == torch::jit::prim::Loop) {
      run_loop(node);
    } else {
      assign(node->outputs(), results(node, values(node->inputs())));
    }
  }

  // The node's inputs are the trip count, the condition and the carried values; the block returns the next condition
  // and the carried values.
  void run_loop(const Node* node) {
    const Block* body = node->blocks()[0];
    Stack carried = values(node->inputs());
    const std::int64_t max_trips = carried[0].toInt();
    bool condition = carried[1].toBool();
    carried.erase(carried.begin(), carried.begin() + 2);
    for (std::int64_t round = 0; condition && round < max_trips; ++round) {
      values_[body->inputs()[0]] = round;
      assign(body->inputs().slice(1), carried);
      run(body);
      carried = values(body->outputs());
      condition = carried[0].toBool();
      carried.erase(carried.begin());
    }
    assign(node->outputs(), carried);
  }

  // Constructs and unpacks lists and tuples (instructions of LibTorch's interpreter); calls all other operators.
  static Stack results(const Node* node, Stack arguments) {
    if (node->kind() == torch::jit::prim::ListConstruct) {
      c10::List<c10::IValue> list(node->output()->type()->expectRef<c10::ListType>().getElementType());
      for (c10::IValue& each : arguments) list.push_back(std::move(each));
      return {c10::IValue(std::move(list))};
    }
    if (node->kind() == torch::jit::prim::TupleConstruct) return {c10::ivalue::Tuple::create(std::move(arguments))};
    if (node->kind() == torch::jit::prim::TupleUnpack) return arguments[0].toTupleRef().elements().vec();
    if (node->kind() == torch::jit::prim::ListUnpack) {
      const std::vector<c10::IValue> elements = arguments[0].toListRef().vec();
      if (elements.size() != node->outputs().size()) throw std::runtime_error("unexpected number of list elements");
      return elements;
    }
    if (node->kind() == at::aten::tensor) {
      // Like torch::tensor, this is not traced: the trace would record the operator as uninitialized memory.
      const at::tracer::impl::NoTracerDispatchMode untraced;
      node->getOperation()(arguments);
      return arguments;
    }
    node->getOperation()(arguments);
    return arguments;
  }

  Stack values(at::ArrayRef<const Value*> names) const {
    Stack stack;
    for (const Value* name : names) stack.push_back(values_.at(name));
    return stack;
  }

  void assign(at::ArrayRef<const Value*> names, const Stack& stack) {
    for (std::size_t i = 0; i < names.size(); ++i) values_[names[i]] = stack.at(i);
  }

  torch::jit::Module module_;
  std::shared_ptr<torch::jit::Graph> graph_;
  std::unordered_map<const Value*, c10::IValue> values_;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

at::Tensor read_tensor(const std::string& shape, const std::string& numbers) {
  std::vector<float> values;
  for (const std::string& each : split(numbers, ',')) values.push_back(std::stof(each));
  if (shape.empty()) return torch::tensor(static_cast<std::int64_t>(values.at(0)));
  std::vector<std::int64_t> sizes;
  for (const std::string& each : split(shape, ',')) sizes.push_back(std::stoll(each));
  return torch::tensor(values, torch::kFloat32).view(sizes);
}

struct Request {
  std::string archive, output;
  std::vector<at::Tensor> inputs;
  whence::Options options;
};

Request read_request(const std::string& line) {
  const std::vector<std::string> words = split(line, ' ');
  Request request{words.at(0), words.at(1), {}, {}};
  request.options.annotate = false;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const std::vector<std::string> parts = split(words[i].substr(equals + 1), ':');
    request.inputs.push_back(read_tensor(parts.at(0), parts.at(1)));
    request.options.input_names.push_back(name);
    if (parts.size() < 3) continue;
    for (const std::string& axis : split(parts[2], ','))
      request.options.dynamic_axes[name][std::stoi(axis)] = axis.substr(axis.find('=') + 1);
  }
  return request;
}

whence::ExitCode answer(const std::string& line) {
  try {
    const Request request = read_request(line);
    torch::nn::Module module;
    const auto report =
        whence::export_onnx_call(module, request.inputs, Interpreter(request.archive), request.output, request.options);
    for (const auto& note : report.notes) std::cout << whence::to_text(note) << "\n";
    return whence::ExitCode::ok;
  } catch (const whence::Error& error) {
    for (const auto& each : error.diagnostics()) std::cout << whence::to_text(each) << "\n";
    return whence::exit_code(error.diagnostics());
  } catch (const std::exception& error) {  // PyTorch cannot run the program
    std::cout << error.what() << "\n";
    return whence::ExitCode::usage;
  }
}

}  // namespace

int main() {
  const torch::NoGradGuard no_grad;
  at::set_num_threads(1);
  for (std::string line; std::getline(std::cin, line);) {
    const whence::ExitCode code = answer(line);
    std::cout << "exit " << static_cast<int>(code) << "\n" << std::flush;
  }
  return 0;
}
