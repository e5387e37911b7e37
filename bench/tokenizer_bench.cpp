// How fast one thread turns a text into token ids and back: tokenizer_bench MODEL TEXT [--repeat N] [--special] [--ids
// FILE]. MODEL is a GGUF file or a directory of Hugging Face. Prints one JSON line; --ids writes the ids as int32, for
// comparisons (bench/tokenizer.py runs this beside Hugging Face's tokenizers).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer.h"

namespace winnow {
namespace {

double Seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<Tokenizer> Open(const std::string& path) {
  if (std::filesystem::is_directory(path)) return Tokenizer::FromDirectory(path);
  WINNOW_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return Tokenizer::FromGguf(file);
}

int Run(const std::vector<std::string>& arguments) {
  int repeat = 1;
  bool special = false;
  std::string ids_path;
  for (size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i] == "--special") special = true;
    if (arguments[i] == "--repeat" && i + 1 < arguments.size()) repeat = std::stoi(arguments[++i]);
    if (arguments[i] == "--ids" && i + 1 < arguments.size()) ids_path = arguments[++i];
  }
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::optional<Result<Tokenizer>> tokenizer;
  const double load = Seconds([&] { tokenizer.emplace(Open(arguments[0])); });
  if (!tokenizer->ok()) {
    fmt::print(stderr, "{}\n", tokenizer->status().message());
    return int(tokenizer->status().code());
  }
  // The token in front is no part of the text.
  const size_t first = (*tokenizer)->adds_bos() && !special ? 1 : 0;
  double encode = 1e9, decode = 1e9;
  std::vector<int32_t> ids;
  std::string decoded;
  for (int i = 0; i < repeat; ++i) {
    encode = std::min(encode, Seconds([&] { ids = (*tokenizer)->Encode(text, {.parse_special = special}).value(); }));
    decode = std::min(decode, Seconds([&] { decoded = (*tokenizer)->Decode(std::span(ids).subspan(first)).value(); }));
  }
  if (!ids_path.empty()) {
    std::ofstream out(ids_path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(ids.data()), std::streamsize(ids.size() * sizeof ids[0]));
  }
  fmt::print(
      "{{\"load_seconds\": {:.4f}, \"encode_seconds\": {:.4f}, \"decode_seconds\": {:.5f}, \"bytes\": {}, "
      "\"tokens\": {}, \"round_trip\": {}}}\n",
      load, encode, decode, text.size(), ids.size(), decoded == text);
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenizer_bench MODEL TEXT [--repeat N] [--special] [--ids FILE]\n");
    return 2;
  }
  return winnow::Run(std::vector<std::string>(argv + 1, argv + argc));
}
