// Figures: what whence measured of one file, by module. Reads the JSON of `whence profile`, `whence accuracy` and
// `whence sensitivity` (../../schema/). The page of `whence diff` shows the figures of both files side by side.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace whence::report {

struct Measure {
  std::string key;                                    // equal keys of two files are the same measure: "time ms"
  std::string title;                                  // "time of a run"
  std::string unit;                                   // "ms", "%", "dB" or "B"; may be empty
  std::map<std::string, double, std::less<>> values;  // by module; infinity is a value
};

struct Figures {
  std::string kind;                  // "profile", "accuracy", "sensitivity"
  std::string file;                  // base name of the JSON file
  std::string model;                 // base name of the measured file
  std::vector<std::string> summary;  // sentences on the measurement as a whole
  std::vector<Measure> measures;
  std::map<std::string, std::string, std::less<>> remarks;  // by module: "differs", "not observable"
};

// Recognises the kind by the content. Throws Error(wrong_kind) for another file, or a field of another type.
Figures read_figures(const std::string& path);

}  // namespace whence::report
