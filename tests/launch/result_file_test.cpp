#include "launch/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "model/gguf_checkpoint.h"
#include "tests/support/temporary_path.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class ResultFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  static ResultJson Made() {
    TinyModel tiny{{.num_layers = 1}};
    const GgufCheckpoint model(std::move(tiny.file), tiny.config);
    const auto world = MakeLocalCommunicator();
    const auto backend = MakeCpuBackend(1, "plain").value();
    const RunEnvironment environment = GatherEnvironment(*world, *backend, 1, 1);
    return MakeResult({.kind = "loss",
                       .command = {"winnow", "eval", "loss"},
                       .settings = {{"seed", 0}},
                       .rows = {{{"policy", "random"}, {"loss", 1.5}}},
                       .refused = ResultJson::array(),
                       .timing = {{"seconds", 0.5}}},
                      model, environment);
  }

  // The result without this key, or with another value there.
  void ExpectRefused(const char* pointer, const ResultJson& value, const std::string& part) {
    ResultJson result = Made();
    result[ResultJson::json_pointer(pointer)] = value;
    const Status status = CheckResult(result);
    EXPECT_EQ(status.code(), StatusCode::kBadFile) << pointer;
    EXPECT_THAT(status.message(), HasSubstr(part));
  }

  const std::filesystem::path folder_ =
      TemporaryPath(std::string("result_file_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

// The schema by hand: every key, its type, and nothing else.
TEST_F(ResultFile, HoldsWhatTheFormatPromisesAndNothingElse) {
  const ResultJson result = Made();
  std::vector<std::string> keys;
  for (const auto& [key, value] : result.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"format", "command", "settings", "model", "environment", "rows", "refused",
                                            "timing"}));
  EXPECT_EQ(result["format"].dump(), R"({"name":"winnow-result","version":1,"rows":"loss"})");
  EXPECT_EQ(result["command"].dump(), R"(["winnow","eval","loss"])");
  std::vector<std::string> of_environment;
  for (const auto& [key, value] : result["environment"].items()) of_environment.push_back(key);
  EXPECT_EQ(of_environment, (std::vector<std::string>{"winnow", "compiler", "build_type", "mpi", "cpu", "backend",
                                                      "kernels", "communicator", "hosts", "ranks", "tensor_parallel",
                                                      "data_parallel", "threads_per_rank", "date"}));
  EXPECT_EQ(result["environment"]["kernels"], "plain");
  EXPECT_EQ(result["environment"]["hosts"], 1);
  EXPECT_THAT(result["environment"]["date"].get<std::string>(),
              MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
  EXPECT_THAT(result["model"]["fingerprint"].get<std::string>(), MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(result["model"]["layers"], 1);
  EXPECT_TRUE(CheckResult(result).ok()) << CheckResult(result).message();
}

TEST_F(ResultFile, IsReadBackAsItWasWritten) {
  const ResultJson result = Made();
  ASSERT_TRUE(WriteResultFile(Path("result.json"), result).ok());
  EXPECT_EQ(ReadResultFile(Path("result.json")).value(), result);
  EXPECT_FALSE(std::filesystem::exists(Path("result.json.part")));
}

TEST_F(ResultFile, OfAnotherFormatOrVersionIsRefusedWithBoth) {
  ExpectRefused("/format/version", 2, "version 1");
  ExpectRefused("/format/version", 2, "\"version\":2");
  ExpectRefused("/format/name", "llama-bench", "llama-bench");
  EXPECT_THAT(CheckResult(ResultJson::array()).message(), HasSubstr("no object"));
  EXPECT_THAT(CheckResult({{"rows", ResultJson::array()}}).message(), HasSubstr("without \"format\""));
  EXPECT_THAT(CheckResult({{"format", 1}}).message(), HasSubstr("found format 1"));
}

TEST_F(ResultFile, WithAWrongValueNamesTheKey) {
  ExpectRefused("/rows", ResultJson::object(), "\"rows\": expected an array of objects");
  ExpectRefused("/rows/0", 3, "\"rows\"");
  ExpectRefused("/rows/0/policy", nullptr, "\"rows\"");
  ExpectRefused("/refused", {{{"policy", "random"}}}, "\"refused\": expected an array of objects with a \"reason\"");
  ExpectRefused("/settings", 1, "\"settings\": expected an object, found 1");
  ExpectRefused("/command", "winnow", "\"command\": expected an array of texts");
  ExpectRefused("/command/0", 7, "\"command\"");
  ExpectRefused("/model/fingerprint", 5, "\"model/fingerprint\": expected text, found 5");
  ExpectRefused("/environment/ranks", 0, "\"environment/ranks\": expected a whole number above 0, found 0");
  ExpectRefused("/environment/hosts", 1.5, "\"environment/hosts\"");
  ExpectRefused("/timing/seconds", -1, "\"timing/seconds\"");
  ResultJson result = Made();
  result["environment"].erase("date");
  EXPECT_THAT(CheckResult(result).message(), HasSubstr("\"environment/date\": expected text, found nothing"));
}

TEST_F(ResultFile, ThatCannotBeReadIsNamed) {
  const auto refused = [&](const std::string& content) {
    std::ofstream(Path("bad.json"), std::ios::binary) << content;
    const Status status = ReadResultFile(Path("bad.json")).status();
    EXPECT_EQ(status.code(), StatusCode::kBadFile);
    EXPECT_THAT(status.message(), HasSubstr(Path("bad.json")));
    return status.message();
  };
  EXPECT_THAT(refused("{\"format\":"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused("{}"), HasSubstr("without \"format\""));
  EXPECT_EQ(ReadResultFile(Path("nowhere.json")).status().code(), StatusCode::kBadFile);
}

TEST_F(ResultFile, ThatCannotBeWrittenIsNoSuccess) {
  const Status status = WriteResultFile(Path("no/such/folder.json"), Made());
  EXPECT_EQ(status.code(), StatusCode::kBadFile);
  EXPECT_THAT(status.message(), HasSubstr("no/such/folder.json"));
}

// A group of thread ranks is one host, whatever its size.
TEST(GatherEnvironment, CountsRanksAndHosts) {
  RunThreadRanks(4, [](Communicator& world) {
    const auto backend = MakeCpuBackend(1, "plain").value();
    const RunEnvironment environment = GatherEnvironment(world, *backend, 2, 3);
    EXPECT_EQ(environment.tensor_parallel, 2);
    EXPECT_EQ(environment.data_parallel, 2);
    EXPECT_EQ(environment.threads_per_rank, 3);
    EXPECT_EQ(environment.hosts, 1);
    EXPECT_EQ(environment.communicator, "thread");
  });
}

}  // namespace
}  // namespace winnow
