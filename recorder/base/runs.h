// The maximum number of example runs in lockstep, and an array with a value for each. ExampleInputs describes the runs.
#pragma once

#include <array>

namespace whence::recorder {

inline constexpr int max_runs = 8;

template <class T>
using PerRun = std::array<T, max_runs>;

}  // namespace whence::recorder
