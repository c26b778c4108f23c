#pragma once

/// The first instruction set that the compute code was compiled for and this processor lacks, or null. Compiled for the
/// baseline processor, so that it can run anywhere.
extern "C" const char* trireme_missing_instructions();
