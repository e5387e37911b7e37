#include "model/hf_fingerprint.h"

#include "base/check.h"
#include "model/file_bytes.h"
#include "model/file_hasher.h"
#include "model/weights_fingerprint.h"

namespace winnow {

uint64_t HfFilesFingerprint(const std::string& config_path, const std::string& directory) {
  FileHasher hasher;
  std::vector<std::string> paths = {config_path};
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"}) {
    paths.push_back(directory + "/" + name);
  }
  for (const std::string& path : paths) {
    const auto file = FileBytes::Map(path);  // one that is not there has no bytes
    hasher.Add(uint64_t(file.ok()));
    if (file.ok()) hasher.Add(file->bytes().data(), file->bytes().size());
  }
  return hasher.hash();
}

uint64_t HfFingerprint(const std::string& directory, const TensorSource& weights) {
  FileHasher hasher;
  hasher.Add(HfFilesFingerprint(directory + "/config.json", directory));
  WINNOW_CHECK(AddWeights(weights, &hasher).ok());  // mapped files make no rows
  return hasher.hash();
}

}  // namespace winnow
