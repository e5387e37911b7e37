// tokenizer.json: the JSON, what it says about a tokenizer, and a text through the tokenizer that comes of it.
#include "model/tokenizer_json.h"

#include "model/tokenizer.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const MemoryLimit limit(size_t(2) << 20, 128, size);
  const auto document = ParseStrictJson(TextOf(data, size));
  if (!document.ok()) {
    CheckRefusal(document.status());
    return 0;
  }
  TokenizerSpec spec;
  spec.source = "fuzz.json";
  if (const Status status = ReadTokenizerJson(JsonView(*document, spec.source), &spec); !status.ok()) {
    CheckRefusal(status);
    return 0;
  }
  const auto tokenizer = Tokenizer::FromSpec(spec);
  if (!tokenizer.ok()) {
    CheckRefusal(tokenizer.status());
    return 0;
  }
  RoundTrip(*tokenizer, "hello \xf0\x9f\x98\x80 w\xc3\xb6rld <|im_end|>\n  12", {.parse_special = true});
  RoundTrip(*tokenizer, "");
  return 0;
}
