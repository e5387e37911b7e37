#include "launch/sampling_defaults.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace winnow {

void AddSamplingFlags(CLI::App& command, SamplingParams* sampling) {
  command
      .add_option("--temperature", sampling->temperature,
                  "0: greedy; default: the model's (generation_config.json with do_sample), else 0")
      ->default_str("");
  command.add_option("--top-k", sampling->top_k, "0: no limit; default: the model's, else 0")->default_str("");
  command.add_option("--top-p", sampling->top_p, "probability mass to sample from; default: the model's, else 1")
      ->default_str("");
  command
      .add_option("--min-p", sampling->min_p,
                  "share of the highest probability a token needs; default: the model's, else 0")
      ->default_str("");
}

SamplingGiven FindGivenSampling(const CLI::App& command) {
  const auto given = [&](const char* name) { return command.get_option(name)->count() > 0; };
  return {given("--temperature"), given("--top-k"), given("--top-p"), given("--min-p")};
}

std::vector<std::string> TakeSamplingDefaults(const GenerationDefaults& defaults, const SamplingGiven& given,
                                              SamplingParams* sampling) {
  // Said of greedy answers too: penalties change them as well.
  std::vector<std::string> notes;
  std::string unsupported;
  for (const std::string& name : defaults.not_supported) unsupported += (unsupported.empty() ? "" : ", ") + name;
  if (!unsupported.empty()) notes.push_back(defaults.source + ": winnow does not have " + unsupported);
  if (!defaults.sample || (given.temperature && sampling->temperature == 0)) return notes;
  std::string taken;
  const auto take = [&](const char* name, bool is_given, const auto& from, auto* to) {
    if (is_given || !from) return;
    *to = *from;
    taken += fmt::format("{}{} {}", taken.empty() ? "" : ", ", name, *from);
  };
  // do_sample without a temperature: that of Hugging Face's GenerationConfig.
  take("temperature", given.temperature, std::optional<float>(defaults.temperature.value_or(1.0f)),
       &sampling->temperature);
  take("top_k", given.top_k, defaults.top_k, &sampling->top_k);
  take("top_p", given.top_p, defaults.top_p, &sampling->top_p);
  take("min_p", given.min_p, defaults.min_p, &sampling->min_p);
  if (!taken.empty()) {
    notes.push_back(defaults.source + ": sampling with " + taken + " (--temperature 0 for greedy answers)");
  }
  return notes;
}

}  // namespace winnow
