// Training data: where samples come from (Dataset), what is done to them on the way (Transform), and the
// order in which a job takes them (DataLoader).
#pragma once

#include "sluice/data_files.h"   // IWYU pragma: export
#include "sluice/data_loader.h"  // IWYU pragma: export
#include "sluice/dataset.h"      // IWYU pragma: export
#include "sluice/image_files.h"  // IWYU pragma: export
#include "sluice/sampler.h"      // IWYU pragma: export
#include "sluice/synthetic.h"    // IWYU pragma: export
#include "sluice/transforms.h"   // IWYU pragma: export
