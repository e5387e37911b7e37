// tokenizer.model, SentencePiece's protocol buffer, and a text through the tokenizer that comes of it.
#include "model/sentencepiece_model.h"
#include "model/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const MemoryLimit limit(size_t(1) << 20, 256, size);
  TokenizerSpec spec;
  spec.source = "fuzz.model";
  if (const Status status = ReadSentencePieceModel({data, size}, &spec); !status.ok()) {
    CheckRefusal(status);
    return 0;
  }
  const auto tokenizer = Tokenizer::FromSpec(spec);
  if (!tokenizer.ok()) {
    CheckRefusal(tokenizer.status());
    return 0;
  }
  RoundTrip(*tokenizer, "hello \xf0\x9f\x98\x80 w\xc3\xb6rld </s>\n  12", {.parse_special = true});
  return 0;
}
