// Run by mpirun: every collective over real MPI, against results that each rank computes for itself. "large" adds
// vectors that do not fit one MPI call. Prints FAIL lines; exit code 1 if there was one.
#include <cstdio>
#include <string>

#include "dist/communicator.h"
#include "tests/dist/collective_checks.h"
#include "tests/dist/exact_sum_problem.h"

int main(int argc, char** argv) {
  auto made = winnow::MakeMpiCommunicator(&argc, &argv);
  if (!made.ok()) {
    std::printf("FAIL %s\n", made.status().message().c_str());
    return int(made.status().code());
  }
  winnow::Communicator& communicator = **made;
  std::vector<std::string> failures = winnow::CheckCollectives(communicator);
  if (argc > 1 && std::string(argv[1]) == "large") {
    for (const std::string& failure : winnow::CheckLargeCollectives(communicator)) failures.push_back(failure);
  }
  const winnow::ExactSumProblem problem = winnow::MakeExactSumProblem(1);
  const auto alone = winnow::MakeLocalCommunicator();
  if (winnow::RunExactSum(communicator, problem, winnow::EvenSegments(communicator.rank(), communicator.size())) !=
      winnow::RunExactSum(*alone, problem, winnow::EvenSegments(0, 1))) {
    failures.push_back("the exact sum's bits differ from those of one rank");
  }
  if (!winnow::MpiLibraryVersion().starts_with("Open MPI v")) {
    failures.push_back("found the MPI version " + winnow::MpiLibraryVersion());
  }
  if (communicator.name() != "mpi") failures.push_back("the communicator's name is " + communicator.name());
  for (const std::string& failure : failures) {
    std::printf("FAIL rank %d of %d: %s\n", communicator.rank(), communicator.size(), failure.c_str());
  }
  return failures.empty() ? 0 : 1;
}
