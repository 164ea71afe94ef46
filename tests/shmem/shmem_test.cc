// SPDX-License-Identifier: Apache-2.0
//
// Programs of OpenSHMEM, in C and as real processes: what test suites of it check (moving.c,
// words.c, collectives.c, threads.c), for every number of PEs, on one machine and as if on two; how
// they are started and ended; and what is said when something is wrong (mistakes.c).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "cli/run_cli.h"
#include "shmem/in_shell.h"
#include "unit/symm/stores/redis/redis_server.h"
#include "unit/symm/stores/store_places.h"

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

// `folder`: where the launcher makes its own; empty: wherever it likes.
CliOutcome run_pes(const Pes& pes, const std::vector<std::string>& command,
                   const std::string& folder = "") {
  CliRun run;
  run.arguments = {"symm-run", "-n", text(pes.count), "--machines", text(pes.machines)};
  run.arguments.insert(run.arguments.end(), command.begin(), command.end());
  run.environment = {{"SHMEM_SYMMETRIC_SIZE", "8M"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}};
  if (!folder.empty()) run.environment["TMPDIR"] = folder;
  return run_cli(run);
}

// --- programs that go well ----------------------------------------------------------------------

class ShmemPrograms : public ::testing::TestWithParam<Pes> {
 protected:
  static void expect_well(const std::string& name) {
#if !ASHLAR_SHMEM_HAS_UCX
    if (GetParam().machines > 1) GTEST_SKIP() << "NOT TESTED: PEs on two machines. No UCX here";
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
INSTANTIATE_TEST_SUITE_P(AsIfOnTwo, ShmemPrograms,
                         ::testing::Values(Pes{2, 2}, Pes{3, 2}, Pes{4, 2}, Pes{3, 3}), name_of);

TEST_P(ShmemPrograms, PutGetStridesSignalsAndTheHeapAreRight) { expect_well("moving"); }
TEST_P(ShmemPrograms, AtomicsWaitsAndLocksAreRight) { expect_well("words"); }
TEST_P(ShmemPrograms, NamesWithoutATypeChooseByThePointer) { expect_well("generic"); }
TEST_P(ShmemPrograms, CollectivesOverWorldTeamsAndActiveSetsAreRight) {
  expect_well("collectives");
}
TEST_P(ShmemPrograms, ThreadsOfAPeDoNotStandInEachOthersWay) { expect_well("threads"); }

// --- how PEs come to be -------------------------------------------------------------------------

TEST(ShmemStarting, OneProgramAloneIsOnePe) { EXPECT_EQ(run_in_shell(program("moving")), 0); }

TEST(ShmemStarting, VariablesOfOtherLaunchersAreUnderstood) {
  for (const char* names : {"OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2",
                            "PMI_RANK=$r PMI_SIZE=2", "SLURM_PROCID=$r SLURM_NTASKS=2"}) {
    const symm::TemporaryFolder folder;
    EXPECT_EQ(
        run_in_shell(text("export ASHLAR_SHMEM_STORE=", folder.path(), "; run() { env ", names, ' ',
                          program("moving"), "; }; r=0; run & first=$!; r=1; run && wait $first")),
        0)
        << names;
  }
}

#if ASHLAR_SHMEM_HAS_REDIS
TEST(ShmemStarting, PesMeetInRedis) {
  if (!symm::RedisServer::is_installed()) {
    GTEST_SKIP() << "NOT TESTED: PEs that meet in Redis. No redis-server is installed here";
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
                          "; run() { env ASHLAR_SHMEM_SIZE=2 ASHLAR_SHMEM_RANK=$r ",
                          program("moving"), "; }; r=0; run & first=$!; r=1; run && wait $first")),
        0);
  }
}
#endif

TEST(ShmemStarting, SettingsThatAreWrongAreNamed) {
  const auto said = [](const std::string& variables) {
    const symm::TemporaryFolder folder;
    const std::string file = folder.path() + "/said";
    EXPECT_EQ(run_in_shell(text(variables, ' ', program("moving"), " 2> ", file)), 1);
    std::string line;
    std::getline(std::ifstream(file), line);
    return line;
  };
  EXPECT_THAT(said("ASHLAR_SHMEM_RANK=0 ASHLAR_SHMEM_SIZE=2"),
              AllOf(HasSubstr("shmem_init"), HasSubstr("ASHLAR_SHMEM_STORE")));
  EXPECT_THAT(said("ASHLAR_SHMEM_RANK=2 ASHLAR_SHMEM_SIZE=2"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(said("ASHLAR_SHMEM_RANK=1"), HasSubstr("but not ASHLAR_SHMEM_SIZE"));
  EXPECT_THAT(said("SHMEM_SYMMETRIC_SIZE=12x"), HasSubstr("\"12x\" (expected a number of bytes"));
  EXPECT_THAT(said("ASHLAR_SHMEM_TRANSPORT=tcp"), HasSubstr("expected ucx or none"));
  EXPECT_THAT(said("ASHLAR_SHMEM_SOTRE=x"), HasSubstr("did you mean ASHLAR_SHMEM_STORE"));
  EXPECT_THAT(said("ASHLAR_SHMEM_STORE=redis://x:123456"), HasSubstr("is no port"));
}

// --- mistakes -----------------------------------------------------------------------------------

struct Mistake {
  std::string name;
  std::string said;
};

class ShmemMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(ShmemMistakes, EndAllPesWithASentence) {
  const CliOutcome outcome = run_pes({3}, {program("mistakes"), GetParam().name});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("shmem: "), HasSubstr(GetParam().said)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ShmemMistakes,
    ::testing::Values(
        Mistake{"sizes", "PE 0 for shmem_malloc(64), PE 1 for shmem_malloc(128)"},
        Mistake{"calls", "PE 0 for shmem_malloc(64), PE 1 for shmem_free("},
        Mistake{"interior", "shmem_free: "}, Mistake{"twice", "or was freed already"},
        Mistake{"alignment", "alignment 48: expected a power of two"},
        Mistake{"global", "static and global variables are not symmetric"},
        Mistake{"rank", "shmem_long_p: PE 3: expected 0 to 2"},
        Mistake{"beyond", "is not in the symmetric heap"},
        Mistake{"overflow", "more than there is memory"},
        Mistake{"unaligned", "is not aligned to its size"},
        Mistake{"stride", "a stride of 0: expected 1 or more"},
        Mistake{"lock", "this PE does not hold the lock"}, Mistake{"comparison", "comparison 99"},
        Mistake{"global-wait", "is not in the symmetric heap"}, Mistake{"signal", "sig_op 77"},
        Mistake{"team", "there is no such team"}, Mistake{"context", "there is no such context"},
        Mistake{"counts", "the ranks call different things"},
        Mistake{"overlap", "overlaps this rank's buffer"},
        Mistake{"overlap-gathered", "dest overlaps source"},
        Mistake{"count-overflow", "more than there is memory"},
        Mistake{"words-overflow", "words are more than there is memory"},
        Mistake{"alltoalls-source", "is not in the symmetric heap"},
        Mistake{"alltoalls-end", "is not in the symmetric heap"},
        Mistake{"alltoalls-overflow", "more than there is memory"},
        Mistake{"signal-unaligned", "is not aligned to the 8 bytes of a word"},
        Mistake{"set", "is not within the 3 PEs"}, Mistake{"early", "call shmem_init before"},
        Mistake{"late", "after shmem_finalize"}),
    [](const auto& each) {
      std::string name = each.param.name;
      std::erase(name, '-');
      return name;
    });

// --- ends ---------------------------------------------------------------------------------------

TEST(ShmemEnding, OnePesDeathEndsTheOthers) {
  for (const char* name : {"killed", "killed-later", "killed-in-lock", "barrier"}) {
    const CliOutcome outcome = run_pes({3}, {program("mistakes"), name});
    EXPECT_EQ(outcome.exit_code, 128 + SIGKILL) << name;
    EXPECT_THAT(outcome.err, HasSubstr("PE 1 was ended by signal 9")) << name;
  }
}

// Without a launcher: those who wait find out by themselves.
TEST(ShmemEnding, OnePesDeathIsNoticedByTheOthersThemselves) {
  const symm::TemporaryFolder folder;
  const std::string said = folder.path() + "-said";
  const int status = run_in_shell(
      text("export ASHLAR_SHMEM_STORE=", folder.path(),
           "; run() { exec env ASHLAR_SHMEM_SIZE=2 ASHLAR_SHMEM_RANK=$r ", program("mistakes"),
           " killed; }; r=1; (run) & r=0; (run) 2> ", said, "; status=$?; wait; exit $status"));
  EXPECT_EQ(status, 1);
  std::string line;
  std::getline(std::ifstream(said), line);
  std::filesystem::remove(said);
  EXPECT_THAT(line, AllOf(HasSubstr("shmem: PE 0: shmem_"), HasSubstr("rank 1")));
}

TEST(ShmemEnding, AGlobalExitEndsAllWithItsStatus) {
  for (const auto& [name, status] :
       {std::pair<std::string, int>{"exit-0", 0}, {"exit-7", 7}, {"return-9", 9}, {"busy", 5}}) {
    const CliOutcome outcome = run_pes({3}, {program("mistakes"), name});
    EXPECT_EQ(outcome.exit_code, status) << name;
    EXPECT_THAT(outcome.err, IsEmpty()) << name;
  }
}

TEST(ShmemLauncher, ItSaysWhatItCannotRun) {
  const CliOutcome none = run_cli({.arguments = {"symm-run", "-n", "2"}});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("a program is needed"));
  const CliOutcome unknown = run_pes({2}, {program("nothing")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("shmem_nothing cannot be run: No such file"));
  const CliOutcome option = run_cli({.arguments = {"symm-run", "--pse", "2", "true"}});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, HasSubstr("\"--pse\" was not expected"));
}

// Options behind the program are its own; what it ends with is what all end with.
TEST(ShmemLauncher, TheProgramGetsItsArgumentsAndEndsAll) {
  const CliOutcome own = run_pes({1}, {"echo", "-n", "--machines"});
  EXPECT_EQ(own.out, "--machines");
  const CliOutcome failed =
      run_pes({3}, {"sh", "-c", "test $ASHLAR_SHMEM_RANK != 1 || exit 41; exec sleep 600"});
  EXPECT_EQ(failed.exit_code, 41);
  EXPECT_THAT(failed.err, HasSubstr("PE 1 ended with status 41"));
  // One that does not listen is ended all the same.
  const CliOutcome deaf = run_pes(
      {2}, {"sh", "-c",
            "trap '' TERM; test $ASHLAR_SHMEM_RANK != 1 || exit 3; while :; do sleep 1; done"});
  EXPECT_EQ(deaf.exit_code, 3);
}

TEST(ShmemLauncher, SignalsAreHandedOn) {
  const CliOutcome asked = run_pes(
      {1}, {"sh", "-c", "trap 'exit 12' USR1; kill -USR1 $PPID; while :; do sleep 0.1; done"});
  EXPECT_EQ(asked.exit_code, 12);
}

TEST(ShmemLauncher, ASignalThatEndsItLeavesNoFolderBehind) {
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
