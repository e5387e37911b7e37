#include "model/checkpoint.h"

#include <utility>

#include "model/gguf_checkpoint.h"

namespace winnow {

Result<std::unique_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(path));
  WINNOW_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(file));
  return std::unique_ptr<const Checkpoint>(std::make_unique<GgufCheckpoint>(std::move(file), config));
}

Result<Tokenizer> Checkpoint::LoadTokenizer() const {
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer());
  if (tokenizer.vocab_size() > config().vocab_size) {
    return BadFile(path() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " tokens, the model " +
                   std::to_string(config().vocab_size) + " vocabulary rows");
  }
  return tokenizer;
}

}  // namespace winnow
