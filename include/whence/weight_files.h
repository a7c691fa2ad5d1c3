// The weights that a model has in files of their own, where another model is made of it: what becomes of them.
#pragma once

namespace whence {

struct WeightFiles {
  bool overwrite = false;  // replaces files that stand where those of the output go and hold something else
  bool copy_data = false;  // copies for an output in the model's folder, which could name the model's own
};

}  // namespace whence
