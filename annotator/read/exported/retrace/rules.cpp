#include "annotator/read/exported/retrace/rules.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

struct ViewOperator {
  std::string_view op;
  const char* inverse;  // nullptr: what is written is what is viewed
  enum class Given : std::uint8_t { rest, sizes, nothing, inverted_order, base_and_rest } given;
};

using enum ViewOperator::Given;

constexpr std::array<ViewOperator, 18> views = {{
    {"aten.alias", nullptr, nothing},
    {"aten.as_strided", "aten.as_strided_scatter.default", base_and_rest},
    {"aten.detach", nullptr, nothing},
    {"aten.diagonal", "aten.diagonal_scatter.default", base_and_rest},
    {"aten.expand", nullptr, nothing},
    {"aten.permute", "aten.permute.default", inverted_order},
    {"aten.select", "aten.select_scatter.default", base_and_rest},
    {"aten.slice", "aten.slice_scatter.default", base_and_rest},
    {"aten.squeeze", "aten.view.default", sizes},
    {"aten.t", "aten.t.default", nothing},
    {"aten.transpose", "aten.transpose.int", rest},
    {"aten.unflatten", "aten.view.default", sizes},
    {"aten.unfold", nullptr, nothing},
    {"aten.unsqueeze", "aten.squeeze.dim", rest},
    {"aten.view", "aten.view.default", sizes},
    {"aten.view_as_complex", "aten.view_as_real.default", nothing},
    {"aten.view_as_real", "aten.view_as_complex.default", nothing},
    {"aten._conj", "aten._conj.default", nothing},
}};

constexpr auto synonyms = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"aten.absolute", "aten.abs"},
    {"aten.arccos", "aten.acos"},
    {"aten.arccosh", "aten.acosh"},
    {"aten.arcsin", "aten.asin"},
    {"aten.arcsinh", "aten.asinh"},
    {"aten.arctan", "aten.atan"},
    {"aten.arctan2", "aten.atan2"},
    {"aten.arctanh", "aten.atanh"},
    {"aten.broadcast_to", "aten.expand"},
    {"aten.clip", "aten.clamp"},
    {"aten.fix", "aten.trunc"},
    {"aten.ger", "aten.outer"},
    {"aten.linalg_multi_dot", "aten.chain_matmul"},
    {"aten.matrix_H", "aten.adjoint"},
    {"aten.negative", "aten.neg"},
    {"aten.not_equal", "aten.ne"},
    {"aten.row_stack", "aten.vstack"},
    {"aten.special_digamma", "aten.digamma"},
    {"aten.special_erf", "aten.erf"},
    {"aten.special_erfc", "aten.erfc"},
    {"aten.special_erfinv", "aten.erfinv"},
    {"aten.special_exp2", "aten.exp2"},
    {"aten.special_expit", "aten.sigmoid"},
    {"aten.special_expm1", "aten.expm1"},
    {"aten.special_gammainc", "aten.igamma"},
    {"aten.special_gammaincc", "aten.igammac"},
    {"aten.special_gammaln", "aten.lgamma"},
    {"aten.special_i0", "aten.i0"},
    {"aten.special_log1p", "aten.log1p"},
    {"aten.special_logit", "aten.logit"},
    {"aten.special_logsumexp", "aten.logsumexp"},
    {"aten.special_multigammaln", "aten.mvlgamma"},
    {"aten.special_psi", "aten.digamma"},
    {"aten.special_round", "aten.round"},
    {"aten.special_sinc", "aten.sinc"},
    {"aten.special_xlogy", "aten.xlogy"},
    {"aten.vdot", "aten.dot"},
});
static_assert(std::ranges::is_sorted(synonyms));

const ViewOperator* view_operator(std::string_view op) {
  const auto found = std::ranges::find(views, op, &ViewOperator::op);
  return found == views.end() ? nullptr : &*found;
}

std::string inverted(const std::string& order, std::int64_t rank) {
  FxCall call;
  call.given.push_back({"dims", order, "", false});
  std::vector<std::int64_t> axes = call.integers("dims"), back(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis >= 0 && axis < static_cast<std::int64_t>(back.size())) {
      back[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
    }
  }
  return list_text(back);
}

}  // namespace

bool apply_rule(Retrace& trace, const FxCall& call) {
  static const auto rules = [] {
    std::unordered_map<std::string_view, Rule> by_operator;
    for (const auto family : {shape_rules(), joining_rules(), network_rules(), recurrent_rules(), loss_rules(),
                              number_rules(), product_rules(), statistics_rules()}) {
      for (const RuleRow& row : family) by_operator.emplace(row.op, row.rule);
    }
    return by_operator;
  }();
  const auto found = rules.find(call.op);
  return found != rules.end() && !call.results.empty() && found->second(trace, call);
}

std::string plain_name(std::string op) {
  const auto found = std::ranges::lower_bound(synonyms, op, {}, [](const auto& row) { return row.first; });
  return found != synonyms.end() && found->first == op ? std::string(found->second) : op;
}

bool is_view(std::string_view op) { return view_operator(op) != nullptr; }

std::pair<std::string, std::vector<std::string>> inverse_of_view(const WrittenView& view) {
  const std::size_t overload = view.target.rfind('.');
  const ViewOperator* found = view_operator(std::string_view(view.target).substr(0, overload));
  if (found == nullptr || found->inverse == nullptr) return {"", {}};
  std::vector<std::string> arguments = {view.written};
  switch (found->given) {
    case base_and_rest:
      arguments.insert(arguments.begin(), view.base);
      [[fallthrough]];
    case rest:
      arguments.insert(arguments.end(), view.rest.begin(), view.rest.end());
      break;
    case sizes:
      arguments.push_back(view.sizes);
      break;
    case inverted_order:
      arguments.push_back(inverted(view.rest.empty() ? "" : view.rest.front(), view.rank));
      break;
    case nothing:
      break;
  }
  return {found->inverse, arguments};
}

}  // namespace whence
