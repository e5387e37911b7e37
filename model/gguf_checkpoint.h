// A model in one GGUF file.
#pragma once

#include <string>
#include <utility>

#include "model/checkpoint.h"
#include "model/gguf.h"

namespace winnow {

class GgufCheckpoint : public Checkpoint {
 public:
  // A file, and what ReadModelConfig made of it.
  GgufCheckpoint(GgufFile file, const ModelConfig& config) : file_(std::move(file)), config_(config) {}

  const std::string& path() const override { return file_.path(); }
  const ModelConfig& config() const override { return config_; }
  const TensorSource& weights() const override { return file_; }
  uint64_t Fingerprint() const override;
  Result<TemplateTokens> LoadTemplateTokens() const override;
  Result<ChatTemplate> LoadChatTemplate() const override;

 private:
  Result<Tokenizer> ReadTokenizer() const override;

  GgufFile file_;
  ModelConfig config_;
};

}  // namespace winnow
