// Standard headers that most sources of the schema, the annotator and the command include, compiled once. None of ours:
// ccache gives a precompiled header back although a comment in it has changed, and GCC, which tells files that were
// included by their contents, includes such a header a second time. Sources include what they use all the same:
// clang-tidy reads them without this file (`make lint`).
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
