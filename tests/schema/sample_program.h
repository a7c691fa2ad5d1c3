// A small program that uses every part of the record once: what the sidecar tests write, and what
// schema/fixtures/v1.3/sample.whence.json holds.
#pragma once

#include "schema/sidecar/sidecar.h"

namespace whence {

Sidecar sample_sidecar();

}  // namespace whence
