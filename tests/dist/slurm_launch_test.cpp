#include "dist/slurm_launch.h"

#include <gtest/gtest.h>

#include <map>

namespace winnow {
namespace {

using Variables = std::map<std::string, std::string>;

GetEnv From(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(SlurmLaunch, RefusesOneRankWhereSlurmStartedSeveralTasks) {
  for (const char* name : {"SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"}) {
    const Status status = CheckSingletonUnderSlurm(From({{name, "4"}}));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    for (const char* part : {"4 MPI ranks", name, "srun --mpi=pmix", "mpirun", "WINNOW_ALLOW_SINGLETON=1"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
}

TEST(SlurmLaunch, AcceptsOneRankOfOneTask) {
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({})).ok());
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}})).ok());
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", ""}})).ok());
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "many"}})).ok());
}

TEST(SlurmLaunch, AcceptsOneRankThatWasAskedFor) {
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "4"}, {"WINNOW_ALLOW_SINGLETON", "1"}})).ok());
  EXPECT_FALSE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "4"}, {"WINNOW_ALLOW_SINGLETON", "0"}})).ok());
  EXPECT_TRUE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "1"}})).ok());
  // PMIx that the library could not use still means separate programs.
  EXPECT_FALSE(CheckSingletonUnderSlurm(From({{"SLURM_NTASKS", "4"}, {"PMIX_RANK", "0"}})).ok());
}

TEST(SlurmLaunch, KnowsProcessManagers) {
  EXPECT_FALSE(HasProcessManager(From({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "1"}})));
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    EXPECT_TRUE(HasProcessManager(From({{name, "0"}})));
  }
}

}  // namespace
}  // namespace winnow
