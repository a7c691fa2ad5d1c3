// A small program that uses every part of the sidecar format. schema/fixtures/v1.4/sample.whence.json contains it.
#pragma once

#include "schema/sidecar/sidecar.h"

namespace whence {

Sidecar sample_sidecar();

}  // namespace whence
