// A model that is nothing but a config.json: its weights are made up (model/dummy_weights.h), so that speed and memory
// can be measured where nobody has the model's files. Tokenizer and chat template are those beside config.json; without
// a tokenizer tokens show their numbers ("<17>"), and prompts are lists of token ids.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "model/checkpoint.h"
#include "model/dummy_weights.h"

namespace winnow {

class DummyCheckpoint : public Checkpoint {
 public:
  // path: a config.json (whatever its name), or the directory that holds it. BadFile as ReadHfConfig.
  static Result<std::unique_ptr<const Checkpoint>> Open(const std::string& path);

  const std::string& path() const override { return path_; }
  const ModelConfig& config() const override { return config_; }
  const TensorSource& weights() const override { return weights_; }
  const GenerationDefaults& generation_defaults() const override { return defaults_; }
  uint64_t Fingerprint() const override { return fingerprint_; }
  Result<TemplateTokens> LoadTemplateTokens() const override;
  Result<ChatTemplate> LoadChatTemplate() const override;

 private:
  DummyCheckpoint(std::string path, std::string directory, uint64_t fingerprint, ModelConfig config,
                  DummyWeights weights, GenerationDefaults defaults)
      : path_(std::move(path)),
        directory_(std::move(directory)),
        fingerprint_(fingerprint),
        config_(std::move(config)),
        weights_(std::move(weights)),
        defaults_(std::move(defaults)) {}
  Result<Tokenizer> ReadTokenizer() const override;

  std::string path_, directory_;
  uint64_t fingerprint_;
  ModelConfig config_;
  DummyWeights weights_;
  GenerationDefaults defaults_;
};

}  // namespace winnow
