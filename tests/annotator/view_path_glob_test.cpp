// Globs over qualified names: rows of pattern, path, answer.
#include <gtest/gtest.h>

#include "annotator/text/path_glob.h"

namespace whence {

using text::matches_path;

namespace {

struct Row {
  const char* pattern;
  const char* path;
  bool matches;
};

TEST(PathGlob, ComparesBySegments) {
  const Row rows[] = {
      {"encoder", "encoder", true},
      {"encoder", "encoder.layer", false},
      {"layer", "encoder.layer", false},
      {"layer", "layers", false},
      {"encoder.layer.*.attention", "encoder.layer.0.attention", true},
      {"encoder.layer.*.attention", "encoder.layer.0.1.attention", false},
      {"encoder.*", "encoder", false},
      {"**", "", true},
      {"", "", true},
      {"", "encoder", false},
      {"**", "a.b.c", true},
      {"**.query", "query", true},
      {"**.query", "a.b.query", true},
      {"**.query", "a.b.query.weight", false},
      {"a.**.c", "a.c", true},
      {"a.**.c", "a.x.y.c", true},
      {"a.**.b.**.c", "a.b.c", true},
      {"a.**.b.**.c", "a.c.b", false},
      {"layer?", "layer1", true},
      {"layer?", "layer", false},
      {"*norm*", "LayerNorm", false},
      {"*Norm", "LayerNorm", true},
      {"l*y*r", "layer", true},
      {"*", "", false},
      {"*", "a", true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(matches_path(row.pattern, row.path), row.matches) << row.pattern << " " << row.path;
}

TEST(PathGlob, ManyStarsStayCheap) {
  std::string pattern, path;
  for (int i = 0; i < 200; ++i) {
    pattern += "**.a.";
    path += "a.";
  }
  EXPECT_FALSE(matches_path(pattern.append("b"), path.append("a")));
  EXPECT_FALSE(matches_path(std::string(200, '*').append("b"), std::string(5000, 'a')));
}

}  // namespace
}  // namespace whence
