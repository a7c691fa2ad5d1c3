// `modules FOLDER`: exports the module of every case and writes LibTorch's results to the folder; prints one JSON
// object per case, with the report or the error.
#include "modules.h"

#include <algorithm>
#include <fstream>
#include <iostream>

namespace {

using torch::Tensor;
using Inputs = std::vector<Tensor>;

std::string folder;

void save(const Tensor& tensor, const std::string& path) {
  const std::vector<char> bytes = torch::pickle_save(tensor);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void save_results(const std::string& stem, const Inputs& inputs, const c10::IValue& result) {
  for (std::size_t i = 0; i < inputs.size(); ++i) save(inputs[i], stem + ".input" + std::to_string(i) + ".pt");
  if (result.isTensor()) return save(result.toTensor(), stem + ".output0.pt");
  const auto& elements = result.toTupleRef().elements();
  for (std::size_t i = 0; i < elements.size(); ++i)
    save(elements[i].toTensor(), stem + ".output" + std::to_string(i) + ".pt");
}

void print_error(const std::string& name, const whence::Error& error) {
  std::cout << "{\"case\": \"" << name << "\", \"errors\": [";
  for (const auto& diagnostic : error.diagnostics())
    std::cout << (&diagnostic == error.diagnostics().data() ? "" : ", ") << whence::to_json(diagnostic);
  std::cout << "]}\n";
}

std::string to_json(const whence::Diagnostics& notes) {
  std::string text;
  for (const auto& note : notes) text += (text.empty() ? "" : ", ") + whence::to_json(note);
  return "[" + text + "]";
}

std::int64_t largest(const whence::Report& report) {
  std::int64_t result = 0;
  for (const auto& [name, sizes] : report.sizes)
    result = std::max(result, *std::max_element(sizes.begin(), sizes.end()));
  return result;
}

// Exports with `inputs`; saves LibTorch's results for `inputs` and `others`.
template <class Module>
void run(const std::string& name, Module& module, const Inputs& inputs, const Inputs& others,
         whence::Options options = {}) {
  const std::string stem = folder + "/" + name;
  options.sidecar = stem + ".whence.json";
  try {
    const bool training = module.is_training();
    const auto report = whence::export_onnx(module, inputs, stem + ".onnx", options);
    std::cout << "{\"case\": \"" << name << "\", \"operations\": " << report.operations
              << ", \"exact\": " << report.exact << ", \"inferred\": " << report.inferred
              << ", \"dynamic\": " << report.dynamic.size() << ", \"largest\": " << largest(report)
              << ", \"notes\": " << to_json(report.notes)
              << ", \"mode_kept\": " << (training == module.is_training() ? "true" : "false") << "}\n";
    const torch::NoGradGuard no_grad;
    module.eval();
    const auto forward = whence::native::forward_of(module);
    Inputs copy = inputs, other = others;
    save_results(stem + ".0", inputs, forward(copy));
    save_results(stem + ".1", others, forward(other));
  } catch (const whence::Error& error) {
    print_error(name, error);
  }
}

whence::Options batch(const std::vector<std::string>& names = {"x"}, int axis = 0) {
  whence::Options options;
  options.input_names = names;
  for (const auto& name : names) options.dynamic_axes[name] = {{axis, "batch"}};
  return options;
}

template <class Module>
void refuse(const std::string& name, Module&& module, const Inputs& inputs, const whence::Options& options = {},
            const std::string& file = "refused.onnx") {
  try {
    whence::export_onnx(module, inputs, folder + "/" + file, options);
    std::cout << "{\"case\": \"" << name << "\", \"errors\": []}\n";
  } catch (const whence::Error& error) {
    print_error(name, error);
  }
}

}  // namespace

int main(int, char** argv) {
  folder = argv[1];
  torch::manual_seed(0);
  run("blocks", *zoo::Blocks(), {torch::randn({2, 8})}, {torch::randn({5, 8})}, batch());
  run("sequence", *torch::nn::Sequential(zoo::Block(8), zoo::Block(8)), {torch::randn({2, 8})}, {torch::randn({6, 8})},
      batch());
  run("containers", *zoo::Containers(), {torch::randn({2, 8})}, {torch::randn({7, 8})}, batch());
  run("shared", *zoo::Shared(), {torch::randint(0, 20, {2, 5})}, {torch::randint(0, 20, {3, 5})}, batch());
  run("recurrent", *zoo::Recurrent(), {torch::randn({2, 7, 8}), torch::randn({1, 2, 6})},
      {torch::randn({4, 3, 8}), torch::randn({1, 4, 6})},
      {.dynamic_axes = {{"x", {{0, "batch"}, {1, "length"}}}, {"state", {{1, "batch"}}}},
       .input_names = {"x", "state"}});
  run("norms", *zoo::Norms(), {torch::randn({2, 3, 8, 8})}, {torch::randn({3, 3, 8, 8})}, batch());
  run("translator", *zoo::Translator(), {torch::randn({6, 2, 16}), torch::randn({4, 2, 16})},
      {torch::randn({6, 3, 16}), torch::randn({4, 3, 16})}, batch({"source", "target"}, 1));
  run("sizes", *zoo::Sizes(), {torch::randn({2, 6, 8})}, {torch::randn({5, 9, 8})},
      {.dynamic_axes = {{"x", {{0, "batch"}, {1, "length"}}}}});
  run("speech", *zoo::Speech(), {torch::randn({2, 1, 400})}, {torch::randn({3, 1, 333})},
      {.dynamic_axes = {{"x", {{0, "batch"}, {2, "length"}}}}});
  const Inputs x = {torch::randn({2, 8})}, other = {torch::randn({5, 8})};
  run("derived", *zoo::Derived(), x, other, batch());
  run("own_layers", *zoo::OwnLayers(), x, other, batch());
  run("layerless", *zoo::Layerless(), x, other, batch());
  run("tree", *zoo::Tree(2), x, other, batch());
  run("pairs", *zoo::Pairs(), x, other, batch());
  run("hidden", *zoo::Hidden(), x, other, batch());
  run("half_scoped", *zoo::HalfScoped(), x, other, batch());
  run("looped", *zoo::Looped(), x, other, batch());
  zoo::Blocks same;
  run("option_no_optimize", *same, x, x, {.optimize = false});
  run("option_weights_as_inputs", *same, x, x, {.weights_as_inputs = true});
  run("option_keep_initializers", *zoo::Blocks(), x, x, {.keep_initializers_as_inputs = true});
  run("option_external_data", *zoo::Blocks(), x, x,
      {.external_data = {.per_tensor = true, .threshold = 64, .alignment = 1}});
  run("option_functions", *zoo::Blocks(), x, x, {.functions = "types=BlockImpl"});
  run("option_report", *zoo::Blocks(), x, x, {.report = folder + "/report.md"});
  zoo::Counting counting;
  run("counting", *counting, x, x, batch());
  counting->count.zero_();
  const auto counted = whence::record(*counting, x, folder + "/counted.whence.json");
  std::cout << "{\"case\": \"counted\", \"count\": " << counting->count[0].item<float>()
            << ", \"notes\": " << to_json(counted.notes) << "}\n";

  refuse("throws", zoo::ThrowsImpl(), x);
  refuse("throws_number", zoo::ThrowsNumberImpl(), x);
  refuse("throws_dynamic", zoo::ThrowsImpl(), x, batch());
  refuse("unregistered", zoo::UnregisteredImpl(), x, batch());
  refuse("limit", zoo::LimitImpl(), x, batch());
  refuse("scaled", zoo::EnlargedImpl(), {torch::randn({2, 3, 20})}, batch({"x"}, 2));
  refuse("branch", zoo::BranchImpl(), x);
  refuse("size_branch", zoo::SizeBranchImpl(), x, batch());
  refuse("baked", zoo::BakedImpl(), x, batch());
  refuse("fixed", zoo::FixedImpl(), x, batch());
  refuse("threaded", zoo::ThreadedImpl(), x);
  refuse("recursive", zoo::RecursiveImpl(), x);
  refuse("too_many_inputs", *zoo::Blocks(), {x[0], x[0]});
  refuse("no_such_input", *zoo::Blocks(), x, {.dynamic_axes = {{"image", {{0, "batch"}}}}});
  refuse("undefined_input", *zoo::Blocks(), {Tensor()});
  refuse("names", *zoo::Blocks(), x, {.input_names = {"a", "b"}});  // more names than inputs
  refuse("bad_name", *zoo::Blocks(), x, {.input_names = {"a b"}});
  refuse("opset", *zoo::Blocks(), x, {.opset = 99});
  refuse("operators", *zoo::Blocks(), x, {.operators = "newest"});
  refuse("functions", *zoo::Blocks(), x, {.functions = "Block"});
  refuse("converters", *zoo::Blocks(), x, {.converters = "no/such/file.onnx"});
  refuse("custom_opsets", *zoo::Blocks(), x, {.custom_opsets = {{"my.ops", -1}}});
  refuse("archive_is_output", *zoo::Blocks(), x, {.archive = folder + "/refused.onnx"});
  refuse("alignment", *zoo::Blocks(), x, {.external_data = {.alignment = 3}});
  refuse("of_archives_dynamic", *zoo::Blocks(), x, {.dynamic = {"x:0=batch"}});
  refuse("of_archives_inputs", *zoo::Blocks(), x, {.inputs = {"x=float32[2,4]"}});
  refuse("of_archives_inputs_file", *zoo::Blocks(), x, {.inputs_file = "inputs.pt"});
  refuse("of_archives_default_dtype", *zoo::Blocks(), x, {.default_dtype = "float64"});
  refuse("of_archives_libraries", *zoo::Blocks(), x, {.libraries = {"operators.so"}});
  refuse("unwritable", *zoo::Blocks(), x, {}, "no/such/folder/x.onnx");
  refuse("no_command", *zoo::Blocks(), x, {.command = "/nonexistent/whence"});
  try {
    whence::native::check_torch_version("1.13.0");
  } catch (const whence::Error& error) {
    print_error("version", error);
  }
}
