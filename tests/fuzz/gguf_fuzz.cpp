// GGUF files: container, model configuration with shard plans, tokenizer, chat template.
#include "model/gguf.h"

#include <vector>

#include "model/chat_prompt.h"
#include "model/gguf_fingerprint.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

namespace winnow {
namespace {

void ReadMetadata(const GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    Touch({reinterpret_cast<const char*>(value.payload.data()), value.payload.size()});
    if (const auto text = file.GetString(key); text.ok()) Touch(*text);
    if (const auto texts = file.GetStringArray(key); texts.ok()) {
      for (const std::string_view text : *texts) Touch(text);
    }
    for (const Status& status : {file.GetUint(key).status(), file.GetFloat(key).status(), file.GetBool(key).status(),
                                 file.GetIntArray(key).status()}) {
      if (!status.ok()) CheckRefusal(status);
    }
  }
}

void ReadModel(const GgufFile& file) {
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    Touch({reinterpret_cast<const char*>(tensor.data), size_t(tensor.num_bytes)});
  }
  FingerprintOf(file);
  if (const auto config = ReadModelConfig(file); config.ok()) {
    CheckShardPlans(*config);
  } else {
    CheckRefusal(config.status());
  }
  if (const auto tokenizer = Tokenizer::FromGguf(file); tokenizer.ok()) {
    RoundTrip(*tokenizer, "hello \xf0\x9f\x98\x80 w\xc3\xb6rld <|im_end|>\n  12", {.parse_special = true});
  } else {
    CheckRefusal(tokenizer.status());
  }
  if (const auto chat_template = ReadChatTemplate(file); !chat_template.ok()) CheckRefusal(chat_template.status());
}

}  // namespace
}  // namespace winnow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const std::vector<uint8_t> bytes(data, data + size);
  const MemoryLimit limit(size_t(1) << 20, 64, size);
  const Result<GgufFile> file = GgufFile::FromBytes("fuzz.gguf", bytes);
  if (!file.ok()) {
    CheckRefusal(file.status());
    return 0;
  }
  ReadMetadata(*file);
  ReadModel(*file);
  return 0;
}
