// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM programs in C, run as real processes: conformance programs (rma.c, atomics.c,
// generic.c, collectives.c, threads.c) with several numbers of PEs, on one machine and on several
// simulated ones; starting and terminating jobs; and error messages (errors.c).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "cli/run_cli.h"
#include "shmem/shell.h"
#include "unit/symm/stores/redis/redis_server.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string program(const std::string& name) { return shmem_program(name); }

struct Pes {
  int count = 2;
  int machines = 1;
};

// Runs a command with the launcher. The launcher creates its temporary folder in `folder`, or in
// the default folder if `folder` is empty.
CliOutcome run_pes(const Pes& pes, const std::vector<std::string>& command,
                   const std::string& folder = "") {
  CliRun run;
  run.arguments = {"run", "-n", text(pes.count), "--machines", text(pes.machines)};
  run.arguments.insert(run.arguments.end(), command.begin(), command.end());
  run.environment = {{"SHMEM_SYMMETRIC_SIZE", "8M"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}};
  if (!folder.empty()) run.environment["TMPDIR"] = folder;
  return run_cli(run);
}

class ShmemPrograms : public ::testing::TestWithParam<Pes> {
 protected:
  static void expect_success(const std::string& name) {
#if !ASHLAR_SHMEM_HAS_UCX
    if (GetParam().machines > 1)
      GTEST_SKIP() << "NOT TESTED: PEs on several machines, because this build has no UCX";
#endif
    const CliOutcome outcome = run_pes(GetParam(), {program(name)});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, IsEmpty());
  }
};

std::string name_of(const ::testing::TestParamInfo<Pes>& info) {
  return text(info.param.count, "On", info.param.machines);
}

INSTANTIATE_TEST_SUITE_P(OneMachine, ShmemPrograms,
                         ::testing::Values(Pes{1}, Pes{2}, Pes{3}, Pes{4}, Pes{5}, Pes{8}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SeveralMachines, ShmemPrograms,
                         ::testing::Values(Pes{2, 2}, Pes{3, 2}, Pes{4, 2}, Pes{3, 3}), name_of);

TEST_P(ShmemPrograms, RmaSignalsAndHeapAreCorrect) { expect_success("rma"); }
TEST_P(ShmemPrograms, AtomicsWaitsAndLocksAreCorrect) { expect_success("atomics"); }
TEST_P(ShmemPrograms, GenericNamesSelectByPointerType) { expect_success("generic"); }
TEST_P(ShmemPrograms, CollectivesAreCorrect) { expect_success("collectives"); }
TEST_P(ShmemPrograms, ThreadsOfOnePeRunConcurrently) { expect_success("threads"); }

TEST(ShmemStatics, AreSymmetric) {
  for (const char* name : {"statics", "statics_no_pie", "cpp"}) {
    for (const Pes& pes : {Pes{1}, Pes{2}, Pes{4}, Pes{3, ASHLAR_SHMEM_HAS_UCX ? 2 : 1}}) {
      const CliOutcome outcome = run_pes(pes, {program(name)});
      EXPECT_EQ(outcome.exit_code, 0) << name << " with " << pes.count << " PEs: " << outcome.err;
    }
  }
}

// PEs that run different programs share the symmetric heap, but not static variables.
TEST(ShmemStatics, AreNotSymmetricBetweenDifferentPrograms) {
  const std::string both = text("test $ASHLAR_SHMEM_RANK = 0 && exec ", program("errors"),
                                " static; exec ", program("rma"));
  const CliOutcome outcome = run_pes({2}, {"sh", "-c", both});
  EXPECT_THAT(outcome.err, HasSubstr("Static variables are not symmetric, because PE 1 runs "
                                     "another program than PE 0"));
}

// Returns a copy of a program with another build ID, as after a change of code that leaves all
// sizes equal; nothing if the linker has written no build ID.
std::optional<std::string> with_other_build_id(std::string program_bytes) {
  constexpr std::string_view kNoteType("\3\0\0\0GNU\0", 8);  // NT_GNU_BUILD_ID
  const size_t note = program_bytes.find(kNoteType);
  if (note == std::string::npos) return std::nullopt;
  program_bytes[note + kNoteType.size()] ^= 1;
  return program_bytes;
}

TEST(ShmemStatics, AreNotSymmetricBetweenBuildsWithEqualSizes) {
  std::ifstream stream(program("errors"), std::ios::binary);
  const std::optional<std::string> changed =
      with_other_build_id({std::istreambuf_iterator<char>(stream), {}});
  if (!changed) GTEST_SKIP() << "NOT TESTED: build IDs, because the linker writes none";
  const symm::TemporaryFolder folder;
  const std::string copy = folder.path() + "/program";
  std::ofstream(copy, std::ios::binary) << *changed;
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
  const std::string both = text("test $ASHLAR_SHMEM_RANK = 0 && exec ", program("errors"),
                                " static; exec ", copy, " static");
  const CliOutcome outcome = run_pes({2}, {"sh", "-c", both});
  EXPECT_THAT(outcome.err, HasSubstr("PE 1 runs another program than PE 0"));
}

#if !defined(ASHLAR_SANITIZED)
// The limit leaves one PE no address space for an aligned view of its heap. Sanitizers need more
// address space than the limit.
TEST(ShmemHeap, RefusesTheSameAlignmentsOnAllPes) {
  const std::string limited = text("test $ASHLAR_SHMEM_RANK = 0 && ulimit -v 900000; exec ",
                                   program("errors"), " alignment");
  EXPECT_EQ(run_pes({2}, {"sh", "-c", limited}).exit_code, 20);
  EXPECT_EQ(run_pes({2}, {program("errors"), "alignment"}).exit_code, 21);
}
#endif

TEST(ShmemStart, RunsOnePeWithoutLauncher) { EXPECT_EQ(run_in_shell(program("rma")), 0); }

TEST(ShmemStart, AcceptsVariablesOfOtherLaunchers) {
  for (const char* names : {"OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2",
                            "PMI_RANK=$r PMI_SIZE=2", "SLURM_PROCID=$r SLURM_NTASKS=2"}) {
    const symm::TemporaryFolder folder;
    EXPECT_EQ(
        run_in_shell(text("export ASHLAR_SHMEM_STORE=", folder.path(), "; run() { env ", names, ' ',
                          program("rma"), "; }; r=0; run & first=$!; r=1; run && wait $first")),
        0)
        << names;
  }
}

TEST(ShmemStart, PrintsInformationThatVariablesEnable) {
  const symm::TemporaryFolder folder;
  const std::string file = folder.path() + "/output";
  EXPECT_EQ(run_in_shell(text("SMA_VERSION=1 SHMEM_INFO=1 SHMEM_DEBUG=1 SMA_SYMMETRIC_SIZE=3.1M ",
                              program("statics"), " > ", file, " 2>&1")),
            0);
  std::ifstream stream(file);
  const std::string output((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(output, AllOf(HasSubstr("Ashlar 0."), HasSubstr("OpenSHMEM 1.5\n"),
                            HasSubstr("SHMEM_SYMMETRIC_SIZE: symmetric heap of each PE"),
                            HasSubstr("symmetric heap of 3250586 bytes")));
}

#if ASHLAR_SHMEM_HAS_REDIS
TEST(ShmemStart, RendezvousThroughRedis) {
  if (!symm::RedisServer::is_installed()) {
    GTEST_SKIP() << "NOT TESTED: rendezvous in Redis, because redis-server is not installed";
  }
  symm::RedisServer::Options options;
  options.port = symm::RedisServer::free_port();
  options.password = "pes only";
  const symm::RedisServer server(options);
  for (const std::string& address :
       {text("'redis://:pes only@127.0.0.1:", options.port, "/3'"),
        text("'redis://default:pes only@localhost:", options.port, "'")}) {
    EXPECT_EQ(
        run_in_shell(text("export ASHLAR_SHMEM_TRANSPORT=none ASHLAR_SHMEM_STORE=", address,
                          "; run() { env ASHLAR_SHMEM_SIZE=2 ASHLAR_SHMEM_RANK=$r ", program("rma"),
                          "; }; r=0; run & first=$!; r=1; run && wait $first")),
        0);
  }
}
#endif

TEST(ShmemStart, NamesInvalidSettings) {
  const auto error_of = [](const std::string& variables) {
    const symm::TemporaryFolder folder;
    const std::string file = folder.path() + "/errors";
    EXPECT_EQ(run_in_shell(text(variables, ' ', program("rma"), " 2> ", file)), 1);
    std::string line;
    std::getline(std::ifstream(file), line);
    return line;
  };
  EXPECT_THAT(error_of("ASHLAR_SHMEM_RANK=0 ASHLAR_SHMEM_SIZE=2"),
              AllOf(HasSubstr("shmem_init"), HasSubstr("ASHLAR_SHMEM_STORE")));
  EXPECT_THAT(error_of("ASHLAR_SHMEM_RANK=2 ASHLAR_SHMEM_SIZE=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_of("ASHLAR_SHMEM_RANK=1"), HasSubstr("but not ASHLAR_SHMEM_SIZE"));
  EXPECT_THAT(error_of("SHMEM_SYMMETRIC_SIZE=12x"),
              HasSubstr("\"12x\" (expected a number of bytes"));
  EXPECT_THAT(error_of("PMIX_RANK=0 PMIX_NAMESPACE=x"),
              HasSubstr("gives the number of PEs only through PMIx"));
  EXPECT_THAT(error_of("ASHLAR_SHMEM_TRANSPORT=tcp"), HasSubstr("expected ucx or none"));
  EXPECT_THAT(error_of("ASHLAR_SHMEM_SOTRE=x"), HasSubstr("did you mean ASHLAR_SHMEM_STORE"));
  EXPECT_THAT(error_of("ASHLAR_SHMEM_STORE=redis://x:123456"), HasSubstr("is not a port number"));
}

struct ErrorCase {
  std::string name;
  std::string message;
};

class ShmemErrors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ShmemErrors, TerminateTheJobWithAMessage) {
  const CliOutcome outcome = run_pes({3}, {program("errors"), GetParam().name});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("shmem: "), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ShmemErrors,
    ::testing::Values(
        ErrorCase{"sizes", "PE 0 called shmem_malloc(64), PE 1 called shmem_malloc(128)"},
        ErrorCase{"calls", "PE 0 called shmem_malloc(64), PE 1 called shmem_free("},
        ErrorCase{"interior", "shmem_free: "}, ErrorCase{"twice", "or was freed already"},
        ErrorCase{"freed-static", "is not in the symmetric heap"},
        ErrorCase{"private", "it is not memory from shmem_malloc or a global or static variable"},
        ErrorCase{"threads",
                  "Static variables are not symmetric, because on PE 0, the program had started "
                  "threads before it called shmem_init"},
        ErrorCase{"protected", "or the program has protected or replaced them"},
        ErrorCase{"rank", "shmem_long_p: PE 3: expected 0 to 2"},
        ErrorCase{"beyond", "is not symmetric"}, ErrorCase{"overflow", "exceed the address space"},
        ErrorCase{"unaligned", "is not aligned to its size"},
        ErrorCase{"stride", "stride 0: expected 1 or more"},
        ErrorCase{"lock", "this PE does not hold the lock"},
        ErrorCase{"comparison", "comparison 99"}, ErrorCase{"private-wait", "is not symmetric"},
        ErrorCase{"signal", "sig_op 77"}, ErrorCase{"team", "unknown team"},
        ErrorCase{"context", "unknown context"}, ErrorCase{"counts", "ranks made different calls"},
        ErrorCase{"overlap", "overlaps this rank's buffer"},
        ErrorCase{"overlap-gathered", "dest partially overlaps source"},
        ErrorCase{"count-overflow", "exceed the address space"},
        ErrorCase{"words-overflow", "words exceed the address space"},
        ErrorCase{"alltoalls-source", "is not symmetric"},
        ErrorCase{"alltoalls-end", "is not symmetric"},
        ErrorCase{"alltoalls-overflow", "exceed the address space"},
        ErrorCase{"signal-unaligned", "is not aligned to the 8 bytes of a word"},
        ErrorCase{"set", "is not within the 3 PEs"}, ErrorCase{"early", "call shmem_init first"},
        ErrorCase{"late", "after shmem_finalize"}),
    [](const auto& each) {
      std::string name = each.param.name;
      std::erase(name, '-');
      return name;
    });

TEST(ShmemExit, LauncherTerminatesJobWhenOnePeDies) {
  for (const char* name : {"killed", "killed-later", "killed-in-lock", "barrier"}) {
    const CliOutcome outcome = run_pes({3}, {program("errors"), name});
    EXPECT_EQ(outcome.exit_code, 128 + SIGKILL) << name;
    EXPECT_THAT(outcome.err, HasSubstr("rank 1 was terminated by signal 9")) << name;
  }
}

// Without a launcher, waiting PEs detect a dead PE themselves.
TEST(ShmemExit, PesDetectADeadPeWithoutLauncher) {
  const symm::TemporaryFolder folder;
  const std::string errors = folder.path() + "-errors";
  const int status = run_in_shell(
      text("export ASHLAR_SHMEM_STORE=", folder.path(),
           "; run() { exec env ASHLAR_SHMEM_SIZE=2 ASHLAR_SHMEM_RANK=$r ", program("errors"),
           " killed; }; r=1; (run) & r=0; (run) 2> ", errors, "; status=$?; wait; exit $status"));
  EXPECT_EQ(status, 1);
  std::string line;
  std::getline(std::ifstream(errors), line);
  std::filesystem::remove(errors);
  EXPECT_THAT(line, AllOf(HasSubstr("shmem: PE 0: shmem_"), HasSubstr("rank 1")));
}

TEST(ShmemExit, GlobalExitTerminatesJobWithItsStatus) {
  for (const auto& [name, status] :
       {std::pair<std::string, int>{"exit-0", 0}, {"exit-7", 7}, {"return-9", 9}, {"busy", 5}}) {
    const CliOutcome outcome = run_pes({3}, {program("errors"), name});
    EXPECT_EQ(outcome.exit_code, status) << name;
    EXPECT_THAT(outcome.err, IsEmpty()) << name;
  }
}

TEST(ShmemLauncher, ReportsProgramsThatCannotRun) {
  const CliOutcome none = run_cli({.arguments = {"symm-run", "-n", "2"}});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("missing program"));
  const CliOutcome unknown = run_pes({2}, {program("nothing")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("shmem_nothing cannot be run: No such file"));
  const CliOutcome option = run_cli({.arguments = {"run", "--pse", "2", "true"}});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, HasSubstr("unexpected argument \"--pse\""));
}

// Options after the program name are passed to it. The launcher returns the first nonzero status.
TEST(ShmemLauncher, PassesArgumentsAndReturnsTheFirstFailure) {
  const CliOutcome own = run_pes({1}, {"echo", "-n", "--machines"});
  EXPECT_EQ(own.out, "--machines");
  const CliOutcome failed =
      run_pes({3}, {"sh", "-c", "test $ASHLAR_SHMEM_RANK != 1 || exit 41; exec sleep 600"});
  EXPECT_EQ(failed.exit_code, 41);
  EXPECT_THAT(failed.err, HasSubstr("rank 1 exited with status 41"));
  // A PE that ignores SIGTERM is killed.
  const CliOutcome ignores_sigterm = run_pes(
      {2}, {"sh", "-c",
            "trap '' TERM; test $ASHLAR_SHMEM_RANK != 1 || exit 3; while :; do sleep 1; done"});
  EXPECT_EQ(ignores_sigterm.exit_code, 3);
}

// Restricts this thread, and the processes that it starts, to two cores for a scope.
class TwoCores {
 public:
  TwoCores() {
    if (::sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    cpu_set_t two;
    CPU_ZERO(&two);
    for (size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &two);
    }
    is_set_ = CPU_COUNT(&two) == 2 && ::sched_setaffinity(0, sizeof(two), &two) == 0;
  }
  ~TwoCores() {
    if (is_set_) ::sched_setaffinity(0, sizeof(before_), &before_);
  }
  TwoCores(const TwoCores&) = delete;
  TwoCores& operator=(const TwoCores&) = delete;

  bool is_set() const { return is_set_; }

 private:
  cpu_set_t before_{};
  bool is_set_ = false;
};

TEST(ShmemLauncher, DividesTheCoresIfThereAreEnough) {
  const TwoCores cores;
  if (!cores.is_set())
    GTEST_SKIP() << "NOT TESTED: binding of PEs, because there is one core, or more than 1024";
  const auto different_masks = [](int pe_count) {
    const CliOutcome outcome =
        run_pes({pe_count}, {"grep", "Cpus_allowed_list", "/proc/self/status"});
    std::set<std::string> masks;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) masks.insert(line);
    return static_cast<int>(masks.size());
  };
  EXPECT_EQ(different_masks(3), 1);
  EXPECT_EQ(different_masks(2), 2);
}

TEST(ShmemLauncher, ForwardsSignals) {
  const CliOutcome asked = run_pes(
      {1}, {"sh", "-c", "trap 'exit 12' USR1; kill -USR1 $PPID; while :; do sleep 0.1; done"});
  EXPECT_EQ(asked.exit_code, 12);
}

TEST(ShmemLauncher, RemovesItsFolderWhenTerminated) {
  const symm::TemporaryFolder folder;
  const CliOutcome ended =
      run_pes({2}, {"sh", "-c", "test $ASHLAR_SHMEM_RANK = 0 && kill -TERM $PPID; sleep 600"},
              folder.path());
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_THAT(ended.err, Not(HasSubstr("was ended")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ashlar
