// `shoal bench comm`: what it prints and writes, and how it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/command.hpp"
#include "support/temp_dir.hpp"

#ifdef SHOAL_CLI  // the build has the command
namespace shoal {
namespace {

using test::Result;

class Bench : public testing::Test {
 protected:
  Result bench(const std::string& arguments, const std::string& environment = "") {
    return test::shell(fmt::format("cd {} && {} timeout 120 {} bench comm {}", dir_.path().string(),
                                   environment, SHOAL_CLI, arguments));
  }
  Result mpi(int ranks, const std::string& arguments) {
    return test::shell(fmt::format("cd {} && timeout 120 sh {}/tests/mpirun.sh {} {} bench comm {}",
                                   dir_.path().string(), SHOAL_SOURCE_DIR, ranks, SHOAL_CLI, arguments));
  }
  void expect_refused(const Result& r, const std::string& message) {
    EXPECT_EQ(r.code, 2) << r.output;
    EXPECT_EQ(test::count(r.output, "\n"), 1) << r.output;
    EXPECT_EQ(r.output.rfind("shoal: " + message, 0), 0u)
        << "expected: " << message << "\nfound: " << r.output;
  }
  // Every line of the table has thirteen columns, and the last lines say that all was right.
  void expect_table(const Result& r, int lines) {
    EXPECT_EQ(r.code, 0) << r.output;
    EXPECT_NE(r.output.find("# Out of bounds values : 0 OK\n"), std::string::npos) << r.output;
    EXPECT_NE(r.output.find("# Avg bus bandwidth    : "), std::string::npos) << r.output;
    std::istringstream text(r.output);
    int found = 0;
    for (std::string line; std::getline(text, line);) {
      if (line.rfind("#", 0) == 0) continue;
      std::istringstream words(line);
      int columns = 0;
      for (std::string word; words >> word;) ++columns;
      EXPECT_EQ(columns, 13) << line;
      ++found;
    }
    EXPECT_EQ(found, lines) << r.output;
  }
  test::TempDir dir_;
};

TEST_F(Bench, EveryCollective) {
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "sendrecv"})
    expect_table(bench(fmt::format("--ranks 3 --op {} -b 4 -e 64K -f 128 -n 2 -w 1 -c 2", op)), 3);
  for (const char* op : {"broadcast", "reduce", "gather", "scatter"})
    expect_table(bench(fmt::format("--ranks 2 --op {} -b 4 -e 64K -f 128 -n 2 -w 1 -c 2 -r all", op)), 6);
}

TEST_F(Bench, TunesThresholdsThatAreReadAgain) {
  const Result tuned = bench("--ranks 2 -n 1 --tune thresholds");
  EXPECT_EQ(tuned.code, 0) << tuned.output;
  for (const char* name : {"inline_bytes", "stage_bytes", "whole_ranks", "stream_bytes"})
    EXPECT_NE(tuned.output.find(fmt::format("\nlocal.{} = ", name)), std::string::npos) << tuned.output;
  const std::string with = "SHOAL_COMM_TUNING=" + (dir_.path() / "thresholds").string();
  expect_table(bench("--ranks 2 -b 4 -e 64K -f 128 -n 2 -w 1", with), 3);
  test::shell(fmt::format("echo local.stage_bytes = much > {}", (dir_.path() / "thresholds").string()));
  const Result refused = bench("--ranks 2 -b 4 -e 4", with);
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.output.find("line 1: local.stage_bytes = much: expected a whole number from 4096 to "),
            std::string::npos)
      << refused.output;
}

TEST_F(Bench, TypesReductionsAndFiles) {
  expect_table(bench("--ranks 3 -b 1K -e 3K -i 1K -n 2 -d all -o all --private --json out.json"),
               3 * (7 * 6 - 2 * 3));
  const auto json = nlohmann::json::parse(test::read_file(dir_ / "out.json"));
  EXPECT_EQ(json["ranks"], 3);
  EXPECT_EQ(json["collective"], "all_reduce");
  EXPECT_EQ(json["wrong"], 0);
  EXPECT_EQ(json["results"].size(), 108u);
  EXPECT_GT(json["results"][0]["in_place"]["time_us"].get<double>(), 0);
  EXPECT_EQ(json["results"][0]["out_of_place"]["wrong"], 0);
  EXPECT_NE(json["results"][0]["algorithm"], "");
  expect_table(bench("-b 0 -e 4 -i 4 -n 1"), 2);  // a world of one, a count of 0
  expect_table(bench("--ranks 2 -b 4 -e 4 -n 1 -c 0"), 1);
}

TEST_F(Bench, Refusals) {
  expect_refused(bench("-b 4X"), "--minbytes 4X: expected bytes, as 4, 64K, 1.5M or 2G");
  expect_refused(bench("-b 8 -e 4"), "--minbytes 8 is above --maxbytes 4");
  expect_refused(bench("-b 0 -f 2"), "--minbytes 0 with --stepfactor 2 never grows");
  expect_refused(bench("--op all_redcue"), "--op all_redcue: expected a collective (all_reduce, ");
  expect_refused(bench("-o reduce -o broadcast"),
                 "--op broadcast: one collective a run, and reduce was given too");
  expect_refused(bench("-d int8"), "--datatype int8: expected uint8, int32, ");
  expect_refused(bench("-o avg -d int32"), "--op avg of int32");
  expect_refused(bench("-r 2 --op broadcast --ranks 2 -b 4 -e 4"), "--root 2: expected 0 to 1, or all");
  expect_refused(bench("-c -1"), "--check -1: expected 0 or above");
  expect_refused(bench("-a 4"), "--average 4: expected 0 to 3");
  expect_refused(bench("-n many"), "bench comm: Could not convert: --iters = many");
  expect_refused(bench("--frob"), "bench comm: unknown option --frob");
  expect_refused(bench("--op sendrecv"), "--op sendrecv needs two ranks or more");
  expect_refused(bench("-b 4 -e 4 --json missing/out.json"), "missing/out.json: cannot be written");
  expect_refused(bench("--ranks 2", "RANK=0 WORLD_SIZE=2"),
                 "--ranks 2 makes ranks in one process, but this is");
}

#ifdef SHOAL_HAVE_MPIRUN
TEST_F(Bench, Processes) {
  expect_table(mpi(2, "-b 4 -e 1M -f 64 -n 2"), 4);
  expect_table(mpi(2, "-b 4 -e 1M -f 64 -n 2 --private -d bfloat16 --op reduce_scatter"), 4);
}
#endif

}  // namespace
}  // namespace shoal
#endif
