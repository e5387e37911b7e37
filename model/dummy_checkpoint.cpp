#include "model/dummy_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "model/file_hasher.h"
#include "model/hf_chat_files.h"
#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/hf_fingerprint.h"
#include "model/model_tensors.h"

namespace winnow {

Result<std::unique_ptr<const Checkpoint>> DummyCheckpoint::Open(const std::string& path) {
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  const bool is_directory = std::filesystem::is_directory(path, error);
  const std::string config_path = is_directory ? path + "/config.json" : path;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = is_directory ? path : parent.empty() ? "." : parent;
  WINNOW_ASSIGN_OR_RETURN(HfConfig config, ReadHfConfig(config_path));
  WINNOW_ASSIGN_OR_RETURN(GenerationDefaults defaults, ReadHfGenerationDefaults(directory, config.eos_ids));
  DummyWeights weights(config.model, config.dtype.value_or(DType::kBF16), config_path);
  WINNOW_RETURN_IF_ERROR(CheckModelTensors(weights, &config.model));
  config.model.name = "made-up weights for " + config.model.name;
  // Weights are a function of the configuration; the word keeps them apart from files of the same one.
  FileHasher hasher;
  hasher.Add(std::string_view("made up"));
  hasher.Add(HfFilesFingerprint(config_path, directory));
  return std::unique_ptr<const Checkpoint>(new DummyCheckpoint(path, directory, hasher.hash(), std::move(config.model),
                                                               std::move(weights), std::move(defaults)));
}

Result<TemplateTokens> DummyCheckpoint::LoadTemplateTokens() const {
  return ReadHfTemplateTokens(directory_);
}

Result<ChatTemplate> DummyCheckpoint::LoadChatTemplate() const {
  return ReadHfChatTemplate(directory_);
}

Result<Tokenizer> DummyCheckpoint::ReadTokenizer() const {
  auto tokenizer = Tokenizer::FromDirectory(directory_);
  if (tokenizer.ok()) return tokenizer;
  return BadFile(tokenizer.status().message() +
                 " (weights can be made up, a vocabulary cannot: put the model's tokenizer beside config.json)");
}

}  // namespace winnow
