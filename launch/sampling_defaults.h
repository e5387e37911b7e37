// How the sampling that a model's files ask for (generation_config.json) and the flags of a command go together. Rank
// 0; pure functions.
#pragma once

#include <string>
#include <vector>

#include "model/generation_defaults.h"
#include "model/sampler.h"

namespace CLI {
class App;
}

namespace winnow {

// Which numbers a command line gave.
struct SamplingGiven {
  bool temperature = false, top_k = false, top_p = false, min_p = false;
};

// Declares --temperature, --top-k, --top-p and --min-p.
void AddSamplingFlags(CLI::App& command, SamplingParams* sampling);
// After parsing.
SamplingGiven FindGivenSampling(const CLI::App& command);

// Takes what the flags leave open, if the model's files ask for sampling (do_sample) and the flags not for greedy
// answers. Returns one line that says what was taken from where and what could not be, or nothing.
std::vector<std::string> TakeSamplingDefaults(const GenerationDefaults& defaults, const SamplingGiven& given,
                                              SamplingParams* sampling);

}  // namespace winnow
