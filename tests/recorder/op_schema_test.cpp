// Parses the schema that LibTorch's dispatcher prints for every registered operator.
#include "schema/op_schema.h"

#include <gtest/gtest.h>

#include "schema/recorder_api.h"
#include "schema/result.h"

extern "C" const whence::RecorderApi* whence_recorder();

namespace whence {
namespace {

// Counts the arguments independently, by the separators of the outermost list.
std::size_t arguments_in(std::string_view schema) {
  const std::size_t open = schema.find('(');
  int depth = 0;
  char quote = 0;
  std::size_t count = 0;
  for (std::size_t i = open; i < schema.size(); ++i) {
    const char c = schema[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if ((c == ')' || c == ']') && --depth == 0) {
      return i == open + 1 ? 0 : count + 1;
    } else if (c == ',' && depth == 1) {
      ++count;
    }
  }
  return 0;
}

TEST(OpSchema, ReadsEveryOperatorOfLibTorch) {
  std::vector<std::string> schemas;
  whence_recorder()->operator_schemas(schemas);
  ASSERT_GT(schemas.size(), 3000u);
  for (const std::string& text : schemas) {
    try {
      const OpSchema schema = parse_op_schema(text);
      EXPECT_EQ(schema.key(), text.substr(0, text.find('(')));
      const std::size_t unnamed = (text.find("(*, ") != std::string::npos || text.find(", *, ") != std::string::npos) +
                                  (text.find("...)") != std::string::npos);
      EXPECT_EQ(schema.arguments.size() + unnamed, arguments_in(text)) << text;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace whence
