// How the external weight files of a model are treated when an output is made from it.
#pragma once

namespace whence {

struct WeightFiles {
  bool overwrite = false;  // replaces existing files at the output's paths that hold something else
  bool copy_data = false;  // copies the weights of an output in the model's folder instead of sharing the model's files
};

}  // namespace whence
