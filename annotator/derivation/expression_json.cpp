#include "annotator/derivation/expression_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace whence::derivation {
namespace {

using Json = nlohmann::ordered_json;

// Names of enumerators, in order.
constexpr std::array<std::string_view, 4> arithmetics = {"in_double", "divide_by_root", "multiply_by_root",
                                                         "factor_in_double"};
constexpr std::array<std::string_view, 2> operations = {"multiply", "add"};
constexpr std::array<std::string_view, 3> group_kinds = {"tensor", "channel", "block"};
constexpr std::array<std::string_view, 4> scale_rules = {"range_in_double", "range_in_float", "largest",
                                                         "signed_largest"};
constexpr std::array<std::string_view, 6> roundings = {"divide_to_even",         "multiply_to_even",
                                                       "multiply_from_zero",     "divide_from_zero",
                                                       "divide_shifted_to_even", "divide_unsigned_to_even"};
constexpr std::array<std::string_view, 3> layouts = {"plain", "packed", "n_bits"};
constexpr std::array<std::string_view, 3> parts = {"integers", "scales", "zero_points"};

template <class Enum, std::size_t size>
std::string_view word(const std::array<std::string_view, size>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

Json runs_json(const std::vector<Run>& runs) {
  Json list = Json::array();
  for (const Run& run : runs) list.push_back({run.first, run.count, run.step});
  return list;
}

Json scheme_json(const Scheme& scheme) {
  return {{"bits", scheme.bits},
          {"signed", scheme.is_signed},
          {"range", {scheme.low, scheme.high}},
          {"clip", {scheme.clip_low, scheme.clip_high}},
          {"symmetric", scheme.is_symmetric},
          {"groups", word(group_kinds, scheme.groups.kind)},
          {"axis", scheme.groups.axis},
          {"block", scheme.groups.block},
          {"scale", word(scale_rules, scheme.scale_rule)},
          {"rounding", word(roundings, scheme.rounding)},
          {"layout", word(layouts, scheme.layout)},
          {"half_scales", scheme.half_scales},
          {"pads_with_zero_points", scheme.pads_with_zero_points},
          {"zero_padding", scheme.zero_padding}};
}

struct Writer {
  Json operator()(const ParameterStep& step) const {
    Json json = {{"step", "parameter"}, {"name", step.name}, {"dtype", name_of(step.dtype)}, {"dims", step.dims}};
    if (!step.equals.empty()) json["equals"] = step.equals;
    if (!step.is_certain) json["certain"] = false;
    if (step.is_computed()) {
      json["computed_from"] = step.parameters;
      json["recipe"] = step.recipe;
    }
    return json;
  }
  Json operator()(const KeptStep& step) const { return {{"step", "kept"}, {"tensor", step.tensor}}; }
  Json operator()(const NumberStep& step) const { return {{"step", "number"}, {"number", step.number}}; }
  Json operator()(const PickStep& step) const { return {{"step", "pick"}, {"runs", runs_json(step.runs)}}; }
  Json operator()(const ConcatenateStep&) const { return {{"step", "concatenate"}}; }
  Json operator()(const TransposeStep& step) const { return {{"step", "transpose"}, {"order", step.order}}; }
  Json operator()(const ReshapeStep& step) const { return {{"step", "reshape"}, {"dims", step.dims}}; }
  Json operator()(const CastStep& step) const {
    Json json = {{"step", "cast"}, {"dtype", name_of(step.dtype)}};
    if (step.range.is_limited()) json["range"] = {step.range.least, step.range.largest};
    if (!step.range.keeps_sign) json["keeps_sign"] = false;
    return json;
  }
  Json operator()(const FoldStep& step) const {
    return {{"step", "fold"},
            {"arithmetic", word(arithmetics, step.arithmetic)},
            {"epsilon", step.epsilon},
            {"is_bias", step.is_bias},
            {"has_bias", step.has_bias},
            {"affine", step.is_affine},
            {"axis", step.axis}};
  }
  Json operator()(const ByChannelStep& step) const {
    return {{"step", "by_channel"}, {"operation", word(operations, step.operation)}, {"axis", step.axis}};
  }
  Json operator()(const PadStep& step) const { return {{"step", "pad"}, {"dims", step.dims}}; }
  Json operator()(const QuantiseStep& step) const {
    return {{"step", "quantise"}, {"part", word(parts, step.part)}, {"scheme", scheme_json(step.scheme)}};
  }
  Json operator()(const QuantiseBiasStep& step) const { return {{"step", "quantise_bias"}, {"scale", step.is_scale}}; }
};

// Reads JSON with checks of its form.
class Reader {
 public:
  Reader(const Json& json, const Place& place, int depth = 0) : json_(json), place_(place), depth_(depth) {}

  Expression read() const {
    constexpr int max_depth = 64;
    if (depth_ > max_depth) corrupt("too many steps");
    const auto step = get<std::string>("step");
    Expression expression{read_step(step)};
    if (!json_.contains("inputs")) return expression;
    for (const Json& input : json_["inputs"]) expression.inputs.push_back(Reader(input, place_, depth_ + 1).read());
    return expression;
  }

 private:
  decltype(Expression::step) read_step(const std::string& step) const {
    if (step == "parameter") {
      ParameterStep parameter{
          .name = get<std::string>("name"), .dtype = dtype(), .dims = get<std::vector<std::int64_t>>("dims")};
      if (json_.contains("equals")) parameter.equals = get<std::vector<std::string>>("equals");
      parameter.is_certain = !json_.contains("certain");
      if (json_.contains("computed_from")) {
        parameter.parameters = get<std::vector<std::string>>("computed_from");
        parameter.recipe = get<std::string>("recipe");
      }
      return parameter;
    }
    if (step == "kept") return KeptStep{get<std::string>("tensor")};
    if (step == "number") return NumberStep{get<float>("number")};
    if (step == "pick") {
      PickStep pick;
      for (const auto& run : get<std::vector<std::array<std::int64_t, 3>>>("runs"))
        pick.runs.push_back({run[0], run[1], run[2]});
      return pick;
    }
    if (step == "concatenate") return ConcatenateStep{};
    if (step == "transpose") return TransposeStep{get<std::vector<std::int64_t>>("order")};
    if (step == "reshape") return ReshapeStep{get<std::vector<std::int64_t>>("dims")};
    if (step == "cast") {
      CastStep cast{dtype()};
      if (!json_.contains("range")) return cast;
      const auto range = get<std::array<float, 2>>("range");
      cast.range = {range[0], range[1], !json_.contains("keeps_sign") || get<bool>("keeps_sign")};
      return cast;
    }
    if (step == "fold") {
      return FoldStep{one_of<FoldArithmetic>("arithmetic", arithmetics),
                      get<double>("epsilon"),
                      get<bool>("is_bias"),
                      get<bool>("has_bias"),
                      get<bool>("affine"),
                      get<std::int64_t>("axis")};
    }
    if (step == "by_channel") {
      return ByChannelStep{one_of<ByChannelStep::Operation>("operation", operations), get<std::int64_t>("axis")};
    }
    if (step == "pad") return PadStep{get<std::vector<std::int64_t>>("dims")};
    if (step == "quantise") return QuantiseStep{scheme(), one_of<QuantiseStep::Part>("part", parts)};
    if (step == "quantise_bias") return QuantiseBiasStep{get<bool>("scale")};
    corrupt("unknown step '" + step + "'");
  }

  Scheme scheme() const {
    const Reader reader(at("scheme"), place_);
    Scheme scheme;
    scheme.bits = reader.get<int>("bits");
    scheme.is_signed = reader.get<bool>("signed");
    const auto range = reader.get<std::array<int, 2>>("range"), clip = reader.get<std::array<int, 2>>("clip");
    scheme.low = range[0];
    scheme.high = range[1];
    scheme.clip_low = clip[0];
    scheme.clip_high = clip[1];
    scheme.is_symmetric = reader.get<bool>("symmetric");
    scheme.groups = {reader.one_of<Groups::Kind>("groups", group_kinds), reader.get<std::int64_t>("axis"),
                     reader.get<std::int64_t>("block")};
    scheme.scale_rule = reader.one_of<ScaleRule>("scale", scale_rules);
    scheme.rounding = reader.one_of<Rounding>("rounding", roundings);
    scheme.layout = reader.one_of<Layout>("layout", layouts);
    scheme.half_scales = reader.get<bool>("half_scales");
    scheme.pads_with_zero_points = reader.get<bool>("pads_with_zero_points");
    scheme.zero_padding = reader.get<int>("zero_padding");
    return scheme;
  }

  DType dtype() const {
    const auto dtype = parse_dtype(get<std::string>("dtype"));
    if (!dtype) corrupt("unknown dtype");
    return *dtype;
  }

  const Json& at(const char* key) const {
    if (!json_.is_object() || !json_.contains(key)) corrupt(std::string("'") + key + "' is missing");
    return json_[key];
  }
  template <class T>
  T get(const char* key) const {
    try {
      return at(key).get<T>();
    } catch (const nlohmann::json::exception&) {
      corrupt(std::string("'") + key + "' has another type");
    }
  }
  template <class Enum, std::size_t size>
  Enum one_of(const char* key, const std::array<std::string_view, size>& names) const {
    const auto name = get<std::string>(key);
    for (std::size_t i = 0; i < size; ++i) {
      if (names[i] == name) return static_cast<Enum>(i);
    }
    corrupt("unknown " + std::string(key) + " '" + name + "'");
  }
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Code::corrupt_file, "a derivation in the statement is invalid: " + what, "write the statement again",
                place_);
  }

  const Json& json_;
  const Place& place_;
  int depth_;
};

}  // namespace

Json to_json(const Expression& expression) {
  Json json = std::visit(Writer(), expression.step);
  if (expression.inputs.empty()) return json;
  Json inputs = Json::array();
  for (const Expression& input : expression.inputs) inputs.push_back(to_json(input));
  json["inputs"] = std::move(inputs);
  return json;
}

Expression expression_from(const Json& json, const Place& place) { return Reader(json, place).read(); }

}  // namespace whence::derivation
