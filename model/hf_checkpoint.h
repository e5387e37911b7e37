// A model in a directory as Hugging Face's transformers writes it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "model/checkpoint.h"
#include "model/hf_weights.h"

namespace winnow {

class HfCheckpoint : public Checkpoint {
 public:
  // config.json, generation_config.json and all weights files, checked; BadFile otherwise.
  static Result<std::unique_ptr<const Checkpoint>> Open(const std::string& directory);

  const std::string& path() const override { return directory_; }
  const ModelConfig& config() const override { return config_; }
  const TensorSource& weights() const override { return weights_; }
  const HfWeights& hf_weights() const { return weights_; }
  const GenerationDefaults& generation_defaults() const override { return defaults_; }
  uint64_t Fingerprint() const override;
  Result<TemplateTokens> LoadTemplateTokens() const override;
  Result<ChatTemplate> LoadChatTemplate() const override;

 private:
  HfCheckpoint(std::string directory, ModelConfig config, HfWeights weights, GenerationDefaults defaults)
      : directory_(std::move(directory)),
        config_(std::move(config)),
        weights_(std::move(weights)),
        defaults_(std::move(defaults)) {}
  Result<Tokenizer> ReadTokenizer() const override;

  std::string directory_;
  ModelConfig config_;
  HfWeights weights_;
  GenerationDefaults defaults_;
};

// generation_config.json of a directory, with the ends of text that config.json names. BadFile.
Result<GenerationDefaults> ReadHfGenerationDefaults(const std::string& directory, const std::vector<int32_t>& eos_ids);

}  // namespace winnow
