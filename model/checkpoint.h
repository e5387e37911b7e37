// A model as its user has it, opened and checked: configuration, weights, tokenizer, chat template. One class a format
// behind it, so that nothing above model/ knows which it is. Owned by whoever loads the model; immutable, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "model/chat_template/chat_template.h"
#include "model/generation_defaults.h"
#include "model/model_config.h"
#include "model/tensor_source.h"
#include "model/tokenizer.h"

namespace winnow {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  // BadFile, with what was expected and found, for what winnow cannot run: all but the tokenizer and the chat template
  // is checked here. `path`: a GGUF file, any part of a split one, or a directory as Hugging Face has it.
  static Result<std::unique_ptr<const Checkpoint>> Open(const std::string& path);
  // The model of a config.json, or of a directory with one, with weights that are made up. The same errors.
  static Result<std::unique_ptr<const Checkpoint>> OpenDummy(const std::string& path);

  virtual const std::string& path() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const TensorSource& weights() const = 0;
  // Nothing, if the model's files say nothing.
  virtual const GenerationDefaults& generation_defaults() const;
  // Of configuration, tokenizer, tensor table and a sample of the weights (model/weights_fingerprint.h), so that ranks,
  // saved sequences and journals can tell whether they are of the same model.
  virtual uint64_t Fingerprint() const = 0;

  // With the ends of text that generation_defaults() adds. BadFile as Tokenizer's readers, when it has more tokens than
  // the model has vocabulary rows, or for an end of text outside of it.
  Result<Tokenizer> LoadTokenizer() const;
  // The tokens that templates name.
  virtual Result<TemplateTokens> LoadTemplateTokens() const = 0;
  // BadFile if the model has none, or as ChatTemplate::Load.
  virtual Result<ChatTemplate> LoadChatTemplate() const = 0;

 protected:
  virtual Result<Tokenizer> ReadTokenizer() const = 0;
};

}  // namespace winnow
