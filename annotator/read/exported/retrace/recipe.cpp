// emit_recipe() of rule_helpers.h: reads a recipe, a line of text that a table of rules can hold, and emits its steps.
#include <algorithm>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

std::string_view next(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return word;
}

struct Kitchen {
  const FxCall& call;
  const Named& named;
  std::vector<std::string> steps;

  std::string value(std::string_view word) const {
    if (word.starts_with('[')) return list(word.substr(1, word.size() - 2));
    if (word.starts_with('%')) return steps.at(static_cast<std::size_t>(std::stoul(std::string(word.substr(1)))) - 1);
    if (!word.starts_with('$')) return std::string(word);
    word.remove_prefix(1);
    const std::string_view name = next(word, '=');
    const auto found = std::ranges::find(named, name, &Named::value_type::first);
    if (found != named.end()) return found->second;
    const std::string given = call.text(name);
    return given == "None" && !word.empty() ? std::string(word) : given;
  }

  std::string list(std::string_view words) const {
    std::string text;
    while (!words.empty()) append_item(text, value(next(words, ',')));
    return "[" + text + "]";
  }
};

}  // namespace

std::string emit_recipe(Retrace& t, const FxCall& c, std::string_view recipe, const Named& named) {
  Kitchen kitchen{c, named, {}};
  while (!recipe.empty()) {
    std::string_view step = next(recipe, ';');
    while (step.starts_with(' ')) step.remove_prefix(1);
    std::string_view written = next(step, ' ');
    std::string target(next(written, '/'));
    if (!target.starts_with("prims.")) target.insert(0, "aten.");
    if (target.find('.') == target.rfind('.')) target += ".default";
    Retrace::Arguments arguments;
    Retrace::Keywords keywords;
    while (!step.empty()) {
      std::string_view word = next(step, ' ');
      if (word.find(':') == std::string_view::npos) {
        arguments.push_back(kitchen.value(word));
      } else {
        const std::string_view name = next(word, ':');
        keywords.emplace_back(name, kitchen.value(word));
      }
    }
    const bool compares = target.starts_with("aten.eq.") || target.starts_with("aten.ne.") ||
                          target.starts_with("aten.lt.") || target.starts_with("aten.le.") ||
                          target.starts_with("aten.gt.") || target.starts_with("aten.ge.");
    const DType dtype = compares ? DType::boolean : parse_dtype(written).value_or(DType::undefined);
    kitchen.steps.push_back(t.emit(target, std::move(arguments), std::move(keywords), dtype));
  }
  return kitchen.steps.back();
}

}  // namespace whence
