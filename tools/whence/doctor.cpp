// `whence doctor`: reports what is installed, which uses of whence work with it, and what the other uses need.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "annotator/app/recorder_library.h"
#include "annotator/app/tool_process.h"
#include "annotator/text/words.h"
#include "schema/files/scratch_folder.h"
#include "schema/files/temporary_names.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/in_python.h"
#include "tools/whence/printing.h"
#include "whence_texts.h"

namespace whence {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kBuild = "whence recorder build";
constexpr double kTimeout = 180;  // seconds, for a Python that loads its packages from a slow disk

// A use of whence, and what it needs apart from the command: "recorder", "whence", "torch" or a package. If a need
// contains '|', one of the parts is enough.
struct Use {
  const char* use;
  std::vector<const char*> needs;
};
const std::vector<Use> kUses = {
    {"annotate, validate, explain, report, diff, select; export of a .pt2", {}},
    {"record and export of a TorchScript archive (.pt)", {"recorder"}},
    {"whence.record and whence.export of a live model, in Python", {"torch", "whence"}},
    {"torch.onnx.export, whose files whence annotates", {"torch", "onnx", "onnxscript"}},
    {"accuracy, sensitivity, whence.verify", {"torch", "whence", "onnx", "onnxruntime"}},
    {"record --values, accuracy --values", {"torch", "whence", "onnx", "onnxruntime", "safetensors"}},
    {"accuracy --runtime openvino", {"torch", "whence", "openvino"}},
    {"fleet", {"whence"}},
    {"carry with an optimiser", {"onnxslim|onnxsim|onnx-graphsurgeon|nncf|modelopt|olive"}},
    {"models of transformers", {"torch", "transformers"}},
    {"a model by module in Model Explorer", {"whence", "model-explorer"}},
    {"a model in Netron", {"netron"}},
};

struct Kind {
  const char *kind, *title;
};
constexpr Kind kKinds[] = {
    {"runtime", "runtimes"}, {"exporter", "exporters"}, {"optimiser", "optimisers"}, {"viewer", "viewers"}};

fs::path this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

Json command_facts() {
  const fs::path program = this_program();
  std::error_code ignored;
  const bool in_wheel = fs::exists(program.parent_path().parent_path() / "__init__.py", ignored);
  const char* kind = is_in_build_tree() ? "build tree" : in_wheel ? "wheel" : "installed";
  return {{"version", WHENCE_VERSION}, {"file", program.string()}, {"kind", kind}};
}

// Runs installed.py in this Python and returns its JSON. Throws Error: missing_file, tool_failed.
Json inspect_python(const std::string& python) {
  const ScratchFolder folder(temporary_path("doctor"));
  const std::string answer = folder.file("installed.json");
  const PostponedStops until_it_ended;
  const app::ToolEnd end =
      app::run_tool({python, "-c", std::string(texts::installed_py), answer}, {.timeout = kTimeout});
  std::ifstream file(answer);
  Json facts = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (end.status == 0 && facts.is_object()) return facts;
  throw Error(Code::tool_failed,
              python + (end.timed_out ? std::string(" took too long") : " ended with " + app::ending_text(end.status)) +
                  (end.words.empty() ? "" : ": " + end.words),
              "pass a Python of version 3.10 or newer with --python", Place{.stage = "look at Python"});
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool recorder_is_there() {
  std::error_code ignored;
  return is_set("WHENCE_RECORDER") ||
         fs::exists(this_program().parent_path().parent_path() / "lib" / "libwhence_recorder.so", ignored);
}

// Loads the recorder with the PyTorch of this Python: only loading shows whether it fits. `variables` are environment
// variables with the recorder's path, from the Python package.
Json recorder_facts(const Json& torch, const Json& variables, Diagnostics& findings) {
  if (torch.is_object() && torch.value("libtorch", false) && !is_set("WHENCE_TORCH_DIR") && !is_set("TORCH_DIR")) {
    setenv("WHENCE_TORCH_DIR", torch.at("folder").get<std::string>().c_str(), 1);
  }
  for (const auto& [variable, value] : variables.items()) {
    if (!is_set(variable.c_str())) setenv(variable.c_str(), value.get<std::string>().c_str(), 1);
  }
  try {
    return {{"state", "fits"}, {"torch", app::recorder().torch_version}, {"why", ""}, {"remedy", ""}};
  } catch (const Error& error) {
    Diagnostic why = error.diagnostics().front();
    const bool there = recorder_is_there(), has_torch = torch.is_object() || is_set("TORCH_DIR");
    const Json facts = {{"state", there ? "does not load" : "not installed"},
                        {"torch", nullptr},
                        {"why", why.message},
                        {"remedy", why.remedy}};
    if (there && has_torch) {
      why.severity = Severity::warning;
      findings.push_back(std::move(why));
    }
    return facts;
  }
}

const Json* package(const Json& packages, const std::string& name) {
  const auto found = std::ranges::find_if(packages, [&](const Json& each) { return each.at("name") == name; });
  return found == packages.end() ? nullptr : &*found;
}

bool has_one(const Json& report, const std::string& need) {
  if (need == "recorder") return report.at("recorder").at("state") == "fits";
  if (need == "torch") return report.at("torch").is_object();
  if (need == "whence") return report.at("package").is_object();
  const Json* found = package(report.at("packages"), need);
  return found != nullptr && !found->contains("problem");
}

// Returns true if no recorder that is installed or available from pip fits the PyTorch.
bool must_be_built(const Json& report) { return report.at("recorder").at("remedy") == kBuild; }

bool has(const Json& report, const std::string& needs) {
  const auto names = text::split(needs, '|');
  return std::ranges::any_of(names, [&](const std::string& need) { return has_one(report, need); });
}

// Returns the name of the package for pip.
std::string distribution(const std::string& need) {
  if (need == "whence") return "whence-onnx";
  if (need == "recorder") return "whence-onnx-recorder";
  return need == "model-explorer" ? "ai-edge-model-explorer" : need;
}

std::string shell_word(const std::string& word) {
  return word.find_first_of(" '\"$\\&;()") == std::string::npos ? word : "'" + word + "'";
}

Json uses(const Json& report, const std::string& python) {
  Json list = Json::array();
  for (const Use& use : kUses) {
    Json missing = Json::array();
    std::string install = shell_word(python) + " -m pip install";
    for (const char* needs : use.needs) {
      if (has(report, needs)) continue;
      const std::string first = text::split(needs, '|').front();
      missing.push_back(first);
      if (first == "recorder" && !has(report, "torch")) install += " torch";
      install += " " + distribution(first);
      if (first == "recorder" && must_be_built(report)) install = shell_word(python) + " -m " + kBuild;
    }
    const bool ready = missing.empty();
    list.push_back({{"use", use.use}, {"ready", ready}, {"missing", missing}, {"install", ready ? "" : install}});
  }
  return list;
}

void find_problems(const Json& report, Diagnostics& findings) {
  const Json& found = report.at("package");
  if (found.is_object() && found.at("version") != WHENCE_VERSION) {
    findings.push_back(
        warning(Code::needs_command,
                "the Python package is whence " + found.at("version").dump() + ", the command " WHENCE_VERSION,
                "install both from one wheel, or pass the other Python with --python",
                Place{.file = found.at("folder"), .stage = "look at Python"}));
  }
  for (const Json& each : report.at("packages")) {
    if (!each.contains("problem")) continue;
    const std::string name = each.at("name");
    findings.push_back(warning(Code::tool_failed, name + " cannot be used: " + each.at("problem").get<std::string>(),
                               "pip install --force-reinstall " + each.at("distribution").get<std::string>(),
                               Place{.stage = "look at Python"}));
  }
}

std::string described(const Json& each) {
  std::string line = each.at("name").get<std::string>() + " " + each.at("version").get<std::string>();
  if (each.contains("problem")) return line + " (cannot be used)";
  if (!each.contains("devices") || each.at("devices").empty()) return line;
  line += " (";
  for (const Json& device : each.at("devices")) line += (line.back() == '(' ? "" : ", ") + device.get<std::string>();
  return line + ")";
}

std::string packages_of(const Json& report, const char* kind) {
  std::string line;
  for (const Json& each : report.at("packages")) {
    if (each.at("kind") == kind) line += (line.empty() ? "" : ", ") + described(each);
  }
  return line.empty() ? "none" : line;
}

void print_line(std::string title, const std::string& text) {
  title.resize(12, ' ');
  std::cout << color_out(Color::dim) << title << color_out(Color::reset) << text << "\n";
}

void print_people(const Json& report) {
  const Json &command = report.at("command"), &python = report.at("python"), &found = report.at("package"),
             &torch = report.at("torch"), &recorder = report.at("recorder");
  const auto text_of = [](const Json& object, const char* key) {
    const Json& text = object.at(key);
    return text.is_string() ? text.get<std::string>() : std::string("of unknown version");
  };
  print_line("command", "whence " + text_of(command, "version") + ", " + text_of(command, "kind") + ", " +
                            text_of(command, "file"));
  print_line("python",
             python.is_object() ? text_of(python, "version") + ", " + text_of(python, "executable") : "not found");
  print_line("package", found.is_object() ? "whence " + text_of(found, "version") + ", " + text_of(found, "folder")
                                          : "not installed");
  print_line("torch",
             torch.is_object() ? text_of(torch, "version") + ", " + text_of(torch, "folder") : "not installed");
  const std::string state = text_of(recorder, "state");
  print_line("recorder", state == "fits"         ? "fits PyTorch " + text_of(recorder, "torch")
                         : must_be_built(report) ? "none fits PyTorch " + text_of(torch, "version")
                                                 : state);
  for (const Kind& kind : kKinds) {
    print_line(kind.title, packages_of(report, kind.kind));
  }
  std::cout << "\nready\n";
  for (const Json& use : report.at("uses")) {
    if (use.at("ready")) std::cout << "  " << text_of(use, "use") << "\n";
  }
  bool any = false;
  for (const Json& use : report.at("uses")) {
    if (use.at("ready")) continue;
    if (!any) std::cout << "\nto install for\n";
    any = true;
    std::cout << "  " << text_of(use, "use") << "\n      " << text_of(use, "install") << "\n";
    const auto& missing = use.at("missing");
    if (std::ranges::find(missing, Json("recorder")) != missing.end() && torch.is_object() && !must_be_built(report)) {
      std::cout << "      or, if none fits: " << kBuild << "\n";
    }
  }
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "doctor", "[--python PYTHON] [--json]",
      "Reports what is installed: the command, its recorder and whether it fits the PyTorch, the packages of a\n"
      "Python environment that whence works with, and the devices of its runtimes. For every use with missing\n"
      "parts, it prints the command that installs them. It does not use the network. Exit code 1: something\n"
      "that is installed does not work.");
  line.option("python", "PYTHON", "the Python to inspect; $WHENCE_PYTHON, else python3 by default");
  line.example("whence doctor");
  line.example("whence doctor --python .venv/bin/python --json");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  Diagnostics findings;
  const std::string python = line.has("python") ? line.text("python") : python_of_command();
  Json facts = {{"whence", nullptr}, {"torch", nullptr}, {"recorder", Json::object()}, {"packages", Json::array()}},
       about = nullptr;
  try {
    facts = inspect_python(python);
    about = {{"executable", facts.at("executable")},
             {"version", facts.at("version")},
             {"machine", facts.at("machine")},
             {"system", facts.at("system")}};
  } catch (const Error& error) {
    const Diagnostic& why = error.diagnostics().front();
    if (line.has("python")) throw;
    if (why.code != Code::missing_file) findings.push_back(warning(why.code, why.message, why.remedy, why.where));
  }
  Json report = {{"command", command_facts()}, {"python", about},     {"package", facts.at("whence")},
                 {"torch", facts.at("torch")}, {"recorder", nullptr}, {"packages", facts.at("packages")}};
  report["recorder"] = recorder_facts(report.at("torch"), facts.at("recorder"), findings);
  report["uses"] =
      uses(report, line.has("python") || about.is_null() ? python : about.at("executable").get<std::string>());
  find_problems(report, findings);
  if (line.json()) {
    print_json(report, findings);
  } else {
    print_people(report);
    if (!findings.empty()) std::cout << std::endl;
    print_text(findings);
  }
  return findings.empty() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command doctor_command = {"doctor", "report what is installed, what works, and what else to install", run};

}  // namespace whence
