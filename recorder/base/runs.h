// How many example runs there are in lockstep at the most, and a value for each. What the runs are: ExampleInputs.
#pragma once

#include <array>

namespace whence::recorder {

inline constexpr int most_runs = 5;

template <class T>
using PerRun = std::array<T, most_runs>;

}  // namespace whence::recorder
