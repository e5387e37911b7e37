// config.json with the shard plans of the model it describes, and generation_config.json.
#include "model/generation_defaults.h"
#include "model/hf_config.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const std::string_view json = TextOf(data, size);
  const MemoryLimit limit(size_t(1) << 20, 128, size);
  if (const auto config = ParseHfConfig(json, "config.json"); config.ok()) {
    CheckShardPlans(config->model);
  } else {
    CheckRefusal(config.status());
  }
  if (const auto defaults = ParseGenerationConfig(json, "generation_config.json"); !defaults.ok()) {
    CheckRefusal(defaults.status());
  }
  return 0;
}
