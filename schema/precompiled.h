// Precompiled standard headers for the schema, the annotator and the command. whence's own headers are excluded: if
// only a comment in one changes, ccache returns the old precompiled header, and GCC, which compares included files by
// content, includes the header a second time. Sources still include what they use, because clang-tidy (`make lint`)
// runs without this file.
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
