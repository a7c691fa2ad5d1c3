#include "annotator/app/function_choice.h"

#include "annotator/text/patterns.h"
#include "annotator/text/words.h"
#include "schema/parse_number.h"

namespace whence::app {
namespace {

int parse_depth(const std::string& text) {
  if (const auto depth = parse_number<int>(text); depth && *depth >= 1) return *depth;
  throw Error(Code::usage, "--functions depth=" + text + " is not a positive number of levels", "use 1 or more",
              {.stage = "command line"});
}

}  // namespace

FunctionChoice parse_function_choice(const std::string& choice) {
  FunctionChoice options;
  if (choice == "auto") return options;
  if (choice == "structure") {
    throw Error(Code::usage, "--functions structure was removed", annotate_first, {.stage = "command line"});
  }
  const std::size_t equals = choice.find('=');
  const std::string kind = choice.substr(0, equals),
                    rest = equals == std::string::npos ? "" : choice.substr(equals + 1);
  if (kind == "types" && !rest.empty()) {
    options.types = text::split(rest, ',');
  } else if (kind == "modules" && !rest.empty()) {
    options.modules = text::split_patterns(rest);
  } else if (kind == "depth") {
    options.depth = parse_depth(rest);
  } else {
    throw Error(Code::usage, "--functions '" + choice + "' is not a choice of modules",
                "use auto, types=BertLayer, modules='encoder.layer.*' or depth=2; pass a file with your own "
                "converters to `whence export --converters`",
                {.stage = "command line"});
  }
  return options;
}

}  // namespace whence::app
