#include "model/checkpoint.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "model/dummy_checkpoint.h"
#include "model/gguf_checkpoint.h"
#include "model/hf_checkpoint.h"

namespace winnow {
namespace {

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// One file of a directory that is only read as a whole.
Status RefusePartOfDirectory(const std::string& path) {
  if (!path.ends_with(".safetensors") && !path.ends_with(".json")) return OkStatus();
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return BadFile(path + ": expected a GGUF file or a directory with config.json and *.safetensors, found one file of " +
                 "such a directory: give " + directory + (path.ends_with(".json") ? ", or --load-format dummy" : ""));
}

}  // namespace

Result<std::unique_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  if (std::filesystem::is_directory(path, error)) return HfCheckpoint::Open(WithoutSlash(path));
  WINNOW_RETURN_IF_ERROR(RefusePartOfDirectory(path));
  WINNOW_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  WINNOW_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  return std::unique_ptr<const Checkpoint>(std::make_unique<GgufCheckpoint>(std::move(file), config));
}

Result<std::unique_ptr<const Checkpoint>> Checkpoint::OpenDummy(const std::string& path) {
  return DummyCheckpoint::Open(WithoutSlash(path));
}

Result<Tokenizer> Checkpoint::LoadTokenizer() const {
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer());
  if (tokenizer.vocab_size() > config().vocab_size) {
    return BadFile(path() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " tokens, the model " +
                   std::to_string(config().vocab_size) + " vocabulary rows");
  }
  const std::vector<int32_t>& ends = generation_defaults().eos_ids;
  for (const int32_t id : ends) {
    if (id < tokenizer.vocab_size()) continue;
    return BadFile(path() + ": eos_token_id: expected an id below the vocabulary's " +
                   std::to_string(tokenizer.vocab_size()) + ", found " + std::to_string(id));
  }
  tokenizer.AddEosIds(ends);
  return tokenizer;
}

const GenerationDefaults& Checkpoint::generation_defaults() const {
  static const GenerationDefaults kNone;
  return kNone;
}

}  // namespace winnow
