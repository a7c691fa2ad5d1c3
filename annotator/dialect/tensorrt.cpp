// Writes trtexec's --layerPrecisions and --layerDeviceTypes: "name:fp32,name:fp32". trtexec splits at every comma, then
// at the last colon, drops single quotes and reads one '*' as any text (TensorRT's samples/common/sampleOptions.cpp and
// sampleUtils.cpp, 8.4 to 10). It does not report a missing layer, and honours precisions only with
// --precisionConstraints. TensorRT 11 takes types from the network and has no options for precisions; it had no DLA
// from 11.0 to 11.3 (its migration guide, "trtexec" and "Working with DLA").
#include "annotator/dialect/dialect.h"

namespace whence::dialect {

namespace {

constexpr std::size_t max_argument_bytes = 131071;  // Linux's limit for one argument

std::string trtexec_refusal(const view::SelectedNode& node, const Choice&) {
  const std::size_t at = node.name.find_first_of(",'*\n");
  if (at == std::string::npos) return "";
  return node.name[at] == '\n'
             ? "has a line break in its name"
             : std::string("has a '") + node.name[at] + "' in its name, which is a special character for trtexec";
}

std::string pairs_of(const std::string& option, const Choice& choice) {
  std::string argument = option + "=";
  for (const std::string& name : names_of(choice)) {
    if (argument.back() != '=') argument += ',';
    argument += name + ":" + choice.setting;
  }
  if (argument.size() > max_argument_bytes) {
    throw Error(Code::over_limit,
                option + " is " + std::to_string(argument.size()) + " bytes long, but Linux limits an argument to " +
                    std::to_string(max_argument_bytes),
                "choose fewer modules, or only the operators that matter with --ops", {.stage = "select"});
  }
  return argument + "\n";
}

std::string write_precisions(const Choice& choice) {
  return "--precisionConstraints=obey\n" + pairs_of("--layerPrecisions", choice);
}

std::string write_device_types(const Choice& choice) { return pairs_of("--layerDeviceTypes", choice); }

}  // namespace

const Dialect trt_precisions_dialect = {
    "trt-precisions", "--layerPrecisions of trtexec 8.4 to 10, one argument per line",
    Bodies::unseen,   {"fp32", "fp16", "bf16", "int8", "fp8", "int4", "int32", "int64", "uint8", "bool"},
    trtexec_refusal,  write_precisions,
    nullptr,          "TensorRT 11 has no --layerPrecisions; for 11, write --format modelopt-autocast"};
const Dialect trt_devices_dialect = {"trt-devices",   "--layerDeviceTypes of trtexec, one argument per line",
                                     Bodies::unseen,  {"DLA", "GPU"},
                                     trtexec_refusal, write_device_types,
                                     nullptr,         "TensorRT 11.0 to 11.3 have no DLA"};

}  // namespace whence::dialect
