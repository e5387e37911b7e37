#include "model/gguf_checkpoint.h"

#include "model/chat_prompt.h"
#include "model/gguf_fingerprint.h"

namespace winnow {

uint64_t GgufCheckpoint::Fingerprint() const {
  return FingerprintOf(file_);
}

Result<TemplateTokens> GgufCheckpoint::LoadTemplateTokens() const {
  return ReadTemplateTokens(file_);
}

Result<ChatTemplate> GgufCheckpoint::LoadChatTemplate() const {
  return ReadChatTemplate(file_);
}

Result<Tokenizer> GgufCheckpoint::ReadTokenizer() const {
  return Tokenizer::FromGguf(file_);
}

}  // namespace winnow
