// Training data: the source of samples (Dataset), operations on them (Transform), and batches of them in the
// order in which a job takes them (DataLoader).
#pragma once

#include "sluice/data_files.h"   // IWYU pragma: export
#include "sluice/data_loader.h"  // IWYU pragma: export
#include "sluice/dataset.h"      // IWYU pragma: export
#include "sluice/image_files.h"  // IWYU pragma: export
#include "sluice/sampler.h"      // IWYU pragma: export
#include "sluice/synthetic.h"    // IWYU pragma: export
#include "sluice/transforms.h"   // IWYU pragma: export
