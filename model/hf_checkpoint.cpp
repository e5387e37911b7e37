#include "model/hf_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "model/hf_chat_files.h"
#include "model/hf_config.h"
#include "model/hf_fingerprint.h"
#include "model/model_tensors.h"

namespace winnow {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  return std::filesystem::exists(path, error);
}

}  // namespace

Result<std::unique_ptr<const Checkpoint>> HfCheckpoint::Open(const std::string& directory) {
  WINNOW_ASSIGN_OR_RETURN(HfConfig config, ReadHfConfig(directory + "/config.json"));
  WINNOW_ASSIGN_OR_RETURN(GenerationDefaults defaults, ReadHfGenerationDefaults(directory, config.eos_ids));
  WINNOW_ASSIGN_OR_RETURN(ShardedSafetensors files, ShardedSafetensors::Open(directory));
  WINNOW_ASSIGN_OR_RETURN(HfWeights weights,
                          HfWeights::Make(std::move(files), directory, config.model.tied_embeddings));
  WINNOW_RETURN_IF_ERROR(CheckModelTensors(weights, &config.model));
  return std::unique_ptr<const Checkpoint>(
      new HfCheckpoint(directory, std::move(config.model), std::move(weights), std::move(defaults)));
}

uint64_t HfCheckpoint::Fingerprint() const {
  return HfFingerprint(directory_, weights_);
}

Result<TemplateTokens> HfCheckpoint::LoadTemplateTokens() const {
  return ReadHfTemplateTokens(directory_);
}

Result<ChatTemplate> HfCheckpoint::LoadChatTemplate() const {
  return ReadHfChatTemplate(directory_);
}

Result<Tokenizer> HfCheckpoint::ReadTokenizer() const {
  return Tokenizer::FromDirectory(directory_);
}

Result<GenerationDefaults> ReadHfGenerationDefaults(const std::string& directory, const std::vector<int32_t>& eos_ids) {
  const std::string path = directory + "/generation_config.json";
  GenerationDefaults defaults;
  if (Exists(path)) {
    WINNOW_ASSIGN_OR_RETURN(defaults, ReadGenerationConfig(path));
  }
  defaults.eos_ids.insert(defaults.eos_ids.end(), eos_ids.begin(), eos_ids.end());
  return defaults;
}

}  // namespace winnow
