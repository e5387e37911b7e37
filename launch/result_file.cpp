#include "launch/result_file.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/version.h"
#include "dist/rank_exit.h"
#include "launch/number_text.h"
#include "launch/text_file.h"

#include "model/whole_file.h"

namespace winnow {
namespace {

// "model name : AMD EPYC ..." of Linux; elsewhere, and on CPUs without a name, "unknown".
std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

uint64_t HashOfHost() {
  uint64_t hash = 0;
  for (unsigned char byte : HostName()) hash = HashWords({hash, byte});
  return hash;
}

ResultJson EnvironmentJson(const RunEnvironment& environment) {
  const BuildInfo& build = GetBuildInfo();
  return {{"winnow", {{"version", build.version}, {"git_id", build.git_id}}},
          {"compiler", build.compiler},
          {"build_type", build.build_type},
          {"mpi", MpiLibraryVersion()},
          {"cpu", environment.cpu},
          {"backend", environment.backend},
          {"kernels", environment.kernels},
          {"communicator", environment.communicator},
          {"hosts", environment.hosts},
          {"ranks", environment.tensor_parallel * environment.data_parallel},
          {"tensor_parallel", environment.tensor_parallel},
          {"data_parallel", environment.data_parallel},
          {"threads_per_rank", environment.threads_per_rank},
          {"date", environment.date}};
}

// A key that every result has, as a path, and the type of its value.
struct Key {
  const char* path;
  bool (*is_right)(const ResultJson&);
  const char* type;
};

bool IsText(const ResultJson& value) {
  return value.is_string();
}
bool IsCount(const ResultJson& value) {
  return value.is_number_integer() && value.get<int64_t>() > 0;
}
bool IsObject(const ResultJson& value) {
  return value.is_object();
}
bool IsSeconds(const ResultJson& value) {
  return value.is_number() && value.get<double>() >= 0;
}
bool IsTexts(const ResultJson& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), IsText);
}
template <char const* kName>
bool IsRows(const ResultJson& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const ResultJson& row) {
           return row.is_object() && row.contains(kName) && row.at(kName).is_string();
         });
}
constexpr char kPolicy[] = "policy", kReason[] = "reason";

constexpr Key kKeys[] = {
    {"/format/rows", IsText, "text"},
    {"/command", IsTexts, "an array of texts"},
    {"/settings", IsObject, "an object"},
    {"/model/name", IsText, "text"},
    {"/model/fingerprint", IsText, "text"},
    {"/environment/winnow/version", IsText, "text"},
    {"/environment/winnow/git_id", IsText, "text"},
    {"/environment/compiler", IsText, "text"},
    {"/environment/mpi", IsText, "text"},
    {"/environment/cpu", IsText, "text"},
    {"/environment/backend", IsText, "text"},
    {"/environment/kernels", IsText, "text"},
    {"/environment/hosts", IsCount, "a whole number above 0"},
    {"/environment/ranks", IsCount, "a whole number above 0"},
    {"/environment/tensor_parallel", IsCount, "a whole number above 0"},
    {"/environment/data_parallel", IsCount, "a whole number above 0"},
    {"/environment/threads_per_rank", IsCount, "a whole number above 0"},
    {"/environment/date", IsText, "text"},
    {"/rows", IsRows<kPolicy>, "an array of objects with a \"policy\" each"},
    {"/refused", IsRows<kReason>, "an array of objects with a \"reason\" each"},
    {"/timing/seconds", IsSeconds, "a number of seconds"},
};

}  // namespace

RunEnvironment GatherEnvironment(Communicator& world, const Backend& backend, int tensor_parallel,
                                 int threads_per_rank) {
  const uint64_t mine = HashOfHost();
  const std::vector<std::byte> all = world.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::set<uint64_t> hosts;
  for (size_t at = 0; at < all.size(); at += sizeof(mine)) {
    uint64_t host = 0;
    std::memcpy(&host, all.data() + at, sizeof(host));
    hosts.insert(host);
  }
  return {.backend = backend.name(),
          .kernels = backend.kernels(),
          .communicator = world.name(),
          .tensor_parallel = tensor_parallel,
          .data_parallel = world.size() / tensor_parallel,
          .threads_per_rank = threads_per_rank,
          .hosts = int(hosts.size()),
          .cpu = CpuName(),
          .date = UtcNow()};
}

ResultJson ModelJson(const Checkpoint& model) {
  const ModelConfig& config = model.config();
  return {
      {"name", config.name},         {"architecture", config.architecture},   {"fingerprint", Hex(model.Fingerprint())},
      {"layers", config.num_layers}, {"query_heads", config.num_query_heads}, {"kv_heads", config.num_kv_heads},
      {"head_dim", config.head_dim}, {"context", config.max_context}};
}

ResultJson MakeResult(ResultParts parts, const Checkpoint& model, const RunEnvironment& environment) {
  ResultJson result;
  result["format"] = {{"name", kResultFormat}, {"version", kResultVersion}, {"rows", parts.kind}};
  result["command"] = std::move(parts.command);
  result["settings"] = std::move(parts.settings);
  result["model"] = ModelJson(model);
  result["environment"] = EnvironmentJson(environment);
  result["rows"] = std::move(parts.rows);
  result["refused"] = std::move(parts.refused);
  result["timing"] = std::move(parts.timing);
  return result;
}

std::string Shown(const ResultJson& value) {
  const std::string text = value.dump(-1, ' ', false, ResultJson::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

Status CheckResult(const ResultJson& result) {
  const std::string expected = std::string("expected a ") + kResultFormat + " of version " +
                               std::to_string(kResultVersion) + " (winnow eval ... --json), found ";
  if (!result.is_object()) return BadFile(expected + "JSON that is no object");
  if (!result.contains("format")) return BadFile(expected + "an object without \"format\"");
  const ResultJson& format = result.at("format");
  const auto part = [&](const char* key) {
    return format.is_object() && format.contains(key) ? format.at(key) : ResultJson();
  };
  if (part("name") != kResultFormat || part("version") != kResultVersion) {
    return BadFile(expected + "format " + Shown(format));
  }
  for (const Key& key : kKeys) {
    const ResultJson::json_pointer pointer(key.path);
    const std::string where = std::string(key.path).substr(1);
    if (!result.contains(pointer)) return BadFile("\"" + where + "\": expected " + key.type + ", found nothing");
    if (!key.is_right(result.at(pointer))) {
      return BadFile("\"" + where + "\": expected " + key.type + ", found " + Shown(result.at(pointer)));
    }
  }
  return OkStatus();
}

Status WriteResultFile(const std::string& path, const ResultJson& result) {
  // The command line may hold bytes that are no UTF-8.
  const std::string text = result.dump(1, ' ', false, ResultJson::error_handler_t::replace) + "\n";
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return WriteWholeFile(path, std::span(&bytes, 1));
}

Result<ResultJson> ReadResultFile(const std::string& path) {
  const auto text = ReadTextFile(path, "result file");
  if (!text.ok()) return BadFile(text.status().message());
  ResultJson result = ResultJson::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (result.is_discarded()) return BadFile("result file '" + path + "' is not valid JSON");
  if (const Status status = CheckResult(result); !status.ok())
    return BadFile("result file '" + path + "': " + status.message());
  return result;
}

}  // namespace winnow
