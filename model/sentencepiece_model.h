// SentencePiece's tokenizer.model as a TokenizerSpec. It is a protocol buffer of which five fields matter: reading
// those takes no more code than linking the library would, whose BPE gives other ids than Hugging Face's in none of the
// texts tried but takes longer. Internal to model/tokenizer; pure function, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "model/tokenizer_spec.h"

namespace winnow {

// BadFile (with spec->source in front) for damaged files, for models that are neither BPE nor unigram, and for text
// normalisation that winnow does not do (the files of Llama 2 and Mistral have none).
Status ReadSentencePieceModel(std::span<const uint8_t> bytes, TokenizerSpec* spec);

}  // namespace winnow
