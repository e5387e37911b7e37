#include "model/dummy_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "model/file_hasher.h"
#include "model/hf_chat_files.h"
#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/hf_fingerprint.h"
#include "model/model_tensors.h"
#include "model/tokenizer_spec.h"

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
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    std::error_code error;
    if (std::filesystem::exists(directory_ + "/" + name, error)) return Tokenizer::FromDirectory(directory_);
  }
  // A vocabulary cannot be made up: tokens show their numbers, and no text has any.
  TokenizerSpec spec;
  spec.source = path_;
  for (int id = 0; id < config_.vocab_size; ++id) spec.tokens.push_back("<" + std::to_string(id) + ">");
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.merges.emplace();
  return Tokenizer::FromSpec(spec);
}

}  // namespace winnow
