// make_tiny_model FILE [query_heads kv_heads [context]]: writes a small random model (tests/support/tiny_model.h) that
// the winnow command opens like any other. A FILE that ends with / becomes a Hugging Face directory of three shards.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tests/support/hf_directory.h"
#include "tests/support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: make_tiny_model FILE [query_heads kv_heads [context]]\n");
    return 2;
  }
  winnow::TinyModelSpec spec;
  if (argc >= 4) {
    spec.num_query_heads = std::atoll(argv[2]);
    spec.num_kv_heads = std::atoll(argv[3]);
    if (argc == 5) spec.context = std::atoll(argv[4]);
  }
  if (std::string_view(argv[1]).ends_with('/')) {
    spec.weights = spec.embeddings = winnow::DType::kBF16;
    winnow::HfDirectory(spec).Write(argv[1], 3);
    return 0;
  }
  const std::vector<uint8_t> bytes = winnow::TinyModelBytes(spec);
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  file.close();
  if (!file) std::fprintf(stderr, "%s cannot be written\n", argv[1]);
  return file ? 0 : 1;
}
