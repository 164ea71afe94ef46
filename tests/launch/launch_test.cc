// SPDX-License-Identifier: Apache-2.0
//
// Starts the program ranks.cc, unchanged, in all ways that need no configuration or one address:
// `ashlar run`, mpirun, prterun, and shells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ashlar/tcp_store.h"
#include "base/text.h"
#include "cli/run_cli.h"
#include "shmem/shell.h"
#include "symm/stores/tcp/tcp_socket.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

const std::string kProgram = ASHLAR_RANKS_PROGRAM;

bool is_installed(const std::string& command) {
  return run_in_shell(text("command -v ", command, " >/dev/null 2>&1")) == 0;
}

class LaunchTest : public ::testing::Test {
 protected:
  // Runs commands in a shell, with the test's environment. Returns their output; fails the test if
  // they fail.
  std::string run(const std::string& commands) {
    const std::string output_path = folder_.path() + "/output";
    EXPECT_EQ(run_in_shell(text("{ ", commands, "\n} >", output_path, " 2>&1")), 0);
    std::ifstream output(output_path);
    return {std::istreambuf_iterator<char>(output), {}};
  }
  void expect_works_with(const std::string& launcher, const std::string& options) {
    if (!is_installed(launcher)) GTEST_SKIP() << launcher << " is not installed";
    // libpmix leaks some of its memory, which must not fail the program under LeakSanitizer.
    EXPECT_THAT(run(text("ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" ", launcher, ' ', options,
                         ' ', kProgram)),
                HasSubstr("4 ranks: 10\n"));
  }

  symm::TemporaryFolder folder_;
};

TEST_F(LaunchTest, OneProcessNeedsNoLauncher) { EXPECT_EQ(run(kProgram), "1 ranks: 1\n"); }

TEST_F(LaunchTest, AshlarRunNeedsNoConfiguration) {
  const CliOutcome outcome = run_cli({.arguments = {"run", "-n", "4", "--", kProgram}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "4 ranks: 10\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(LaunchTest, OldNameOfAshlarRunWorks) {
  const CliOutcome outcome = run_cli({.arguments = {"symm-run", "-n", "2", kProgram}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "2 ranks: 3\n");
}

TEST_F(LaunchTest, MpirunNeedsNoConfiguration) {
  if (!ASHLAR_HAS_PMIX) GTEST_SKIP() << "this build has no PMIx: run scripts/setup";
  expect_works_with("mpirun", "--allow-run-as-root --oversubscribe -n 4");
}

TEST_F(LaunchTest, PrterunNeedsNoConfiguration) {
  if (!ASHLAR_HAS_PMIX) GTEST_SKIP() << "this build has no PMIx: run scripts/setup";
  expect_works_with("prterun", "--allow-run-as-root --map-by :OVERSUBSCRIBE -n 4");
}

// Rank 0 serves the store, whichever process starts first.
TEST_F(LaunchTest, FourShellsNeedOneAddressAndOneToken) {
  const uint16_t port = symm::listen_tcp({"127.0.0.1", 0})->port;
  const std::string token_path = folder_.path() + "/token";
  std::ofstream(token_path) << *symm::try_new_store_token() << '\n';
  std::filesystem::permissions(token_path, std::filesystem::perms::owner_read);
  const std::string output = run(text("export ASHLAR_STORE=tcp://127.0.0.1:", port,
                                      " ASHLAR_STORE_TOKEN_FILE=", token_path,
                                      " ASHLAR_WORLD_SIZE=4\n"
                                      "for rank in 3 2 1; do ASHLAR_RANK=$rank ",
                                      kProgram, " & done\nASHLAR_RANK=0 ", kProgram, " && wait"));
  EXPECT_EQ(output, "4 ranks: 10\n");
}

TEST_F(LaunchTest, FourShellsMayShareAFolder) {
  const std::string output =
      run(text("export ASHLAR_STORE=", folder_.path(), "/store ASHLAR_WORLD_SIZE=2\nASHLAR_RANK=1 ",
               kProgram, " &\nASHLAR_RANK=0 ", kProgram, " && wait"));
  EXPECT_EQ(output, "2 ranks: 3\n");
}

TEST_F(LaunchTest, SeveralRanksWithoutAStoreAreAnError) {
  const std::string output =
      run(text("if ASHLAR_RANK=0 ASHLAR_WORLD_SIZE=2 ", kProgram, "; then exit 1; fi"));
  EXPECT_THAT(output, HasSubstr("2 ranks, but no store: set ASHLAR_STORE"));
}

}  // namespace
}  // namespace ashlar
