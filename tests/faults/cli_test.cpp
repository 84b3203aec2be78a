// Bad input on the command line, each with its message and exit code; and what good input writes.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/command.hpp"
#include "support/jobs.hpp"

#ifdef SHOAL_CLI  // the build has the command
namespace shoal {
namespace {

using test::Result;

class Cli : public testing::Test {
 protected:
  Cli() { dir_.write("text.txt", test::sample_text(6000)); }
  Result shoal(const std::string& arguments, const std::string& environment = "") {
    return test::shell(fmt::format("cd {} && {} timeout 120 {} {}", dir_.path().string(), environment,
                                   SHOAL_CLI, arguments));
  }
  Result train(const std::string& more, const std::string& environment = "") {
    return shoal("train --quiet " + keys_ + more, environment);
  }
  Result mpi(int ranks, const std::string& more, const std::string& environment = "") {
    return test::shell(fmt::format("cd {} && {} timeout 120 sh {}/tests/mpirun.sh {} {} train --quiet {}{}",
                                   dir_.path().string(), environment, SHOAL_SOURCE_DIR, ranks, SHOAL_CLI,
                                   keys_, more));
  }
  // Exactly one line, "shoal: ...", with exit code `code`.
  void expect_refused(const Result& r, const std::string& message, int code = 2) {
    EXPECT_EQ(r.code, code) << r.output;
    EXPECT_EQ(r.output.rfind("shoal: ", 0), 0u) << r.output;
    EXPECT_EQ(test::count(r.output, "\n"), 1) << r.output;
    EXPECT_NE(r.output.find(message), std::string::npos)
        << "expected: " << message << "\nfound: " << r.output;
  }
  test::TempDir dir_;
  std::string keys_ =
      "data.train=text.txt model.layers=1 model.hidden=32 model.heads=2 model.seq=16 train.steps=3 "
      "train.global_batch=4 run.dir=run train.threads=1 ";
};

TEST_F(Cli, KeysAndValues) {
  expect_refused(train("train.stepz=5"),
                 "unknown key train.stepz (value 5): the nearest known key is train.steps");
  expect_refused(train("train.steps=some"), "train.steps = 'some': expected an integer, at least 0");
  expect_refused(train("parallel.tensor=2"), "parallel.tensor = 2 is not built yet");
  expect_refused(train("parallel.tensor=3 model.heads=4"),
                 "4 heads do not divide by 3; degrees that would do: 1, 2 or 4");
  expect_refused(train("model.hidden=33"), "33");
  expect_refused(train("train.micro_batch=3"),
                 "train.global_batch = 4 does not divide by 1 data-parallel rank x "
                 "train.micro_batch = 3 = 3; microbatches that would do: 1, 2 or 4");
  expect_refused(shoal("train missing.toml"), "job file missing.toml: No such file or directory");
  expect_refused(shoal("train data.train="), "data.train is empty");
  expect_refused(shoal("train . data.train=text.txt"), "job file .: is a directory");  // not an empty job
  dir_.write("bad.toml", "[train]\nsteps = \n");
  expect_refused(shoal("train bad.toml"), "bad.toml:2:");
  dir_.write("unknown.toml", "[train]\nstep = 3\n");
  expect_refused(shoal("train unknown.toml"),
                 "unknown.toml:2: unknown key train.step (value 3): the nearest known key is "
                 "train.steps");
}

TEST_F(Cli, Arguments) {
  expect_refused(shoal(""),
                 "which command? There are info, train, sample, data, diff, bench, run (shoal --help)");
  expect_refused(shoal("trian"),
                 "unknown command trian: the commands are info, train, sample, data, diff, bench, run");
  expect_refused(shoal("--loud"), "unknown option --loud: the commands are info");
  expect_refused(shoal("train --loud"),
                 "train: unknown option --loud; keys of the job are given as train.steps=100, without dashes "
                 "(shoal train --help)");
  expect_refused(shoal("sample run --loud"), "sample: unknown option --loud (shoal sample --help)");
  expect_refused(shoal("diff a b c"), "diff: one argument too many: c (shoal diff --help)");
  expect_refused(shoal("diff one"), "diff: RUN_B is required (shoal diff --help)");
  expect_refused(shoal("data"), "data: A subcommand is required (shoal data --help)");
  EXPECT_EQ(shoal("help").output, shoal("--help").output);
  EXPECT_EQ(shoal("help train").output, shoal("train --help").output);
  EXPECT_EQ(shoal("help").code, 0);
  EXPECT_EQ(shoal("--version").output.rfind("shoal ", 0), 0u);
  EXPECT_EQ(shoal("version").output, shoal("--version").output);
  EXPECT_EQ(shoal("--help").code, 0);
  EXPECT_EQ(shoal("train --help").code, 0);
  EXPECT_NE(shoal("train --help").output.find("key=value"), std::string::npos);
}

TEST_F(Cli, AJobFileMayStandAnywhereAmongTheKeys) {
  dir_.write("job.toml", "[train]\nsteps = 2\nglobal_batch = 4\n");
  dir_.write("lr=1/job.toml", "[train]\nstep = 2\n");
  EXPECT_EQ(train("job.toml").code, 0);
  EXPECT_EQ(train("job.toml train.steps=1").code, 0);
  expect_refused(train("job.toml job.toml"), "two job files, job.toml and job.toml");
  expect_refused(train("./lr=1/job.toml"), "./lr=1/job.toml:2: unknown key train.step");
  expect_refused(train("train.steps"),
                 "job file train.steps: No such file or directory (a key is given as key=value)");
}

TEST_F(Cli, Data) {
  expect_refused(train("data.train=nothing.txt"), "nothing.txt");
  expect_refused(train("model.vocab=100"), "100");  // letters are above it
  expect_refused(train("data.train=" + dir_.write("short.txt", "ten bytes.")), "short.txt");
  expect_refused(train("data.train=" + dir_.write("empty.txt", "")), "empty.txt");
  EXPECT_EQ(shoal("data pack text.tok text.txt").code, 0);
  EXPECT_EQ(train("data.train=text.tok").code, 0);
  const std::string packed = test::read_file(dir_ / "text.tok");
  dir_.write("cut.tok", packed.substr(0, packed.size() - 7));
  expect_refused(train("data.train=cut.tok"), "cut.tok");
  expect_refused(shoal("data show cut.tok"), "cut.tok");
  std::string damaged = packed;
  damaged[9] = static_cast<char>(damaged[9] ^ 0x55);
  dir_.write("damaged.tok", damaged);
  expect_refused(train("data.train=damaged.tok"), "damaged.tok");
  std::string flipped = packed;  // in the tokens, behind a good header
  flipped[1000] = static_cast<char>(flipped[1000] ^ 0x01);
  dir_.write("flipped.tok", flipped);
  expect_refused(train("data.train=flipped.tok"),
                 "flipped.tok: at offset 64: checksum of the data (which is damaged)");
  expect_refused(train("data.train=text.tok data.val=flipped.tok"),
                 "flipped.tok: at offset 64: checksum of the data");
  expect_refused(train("data.train=flipped.tok data.verify=always"), "flipped.tok: at offset 64");
  EXPECT_EQ(train("data.train=flipped.tok data.verify=never").code, 0);
  dir_.write("empty.tok", "");
  expect_refused(train("data.train=empty.tok"), "empty.tok");
  dir_.write("ids.bin", std::string("a\0b\0c\0", 6));  // ids of two bytes, by another program
  expect_refused(train("data.train=ids.bin"),
                 "ids.bin: at offset 1: a zero byte: expected text, or a packed");
  EXPECT_EQ(shoal("data pack bytes.tok ids.bin").code, 0);  // asked for
  ASSERT_EQ(test::shell("mkfifo " + (dir_ / "pipe")).code, 0);
  expect_refused(train("data.train=pipe"), "pipe: is a device, pipe or socket, expected a regular file");
  expect_refused(shoal("data pack pipe text.txt"), "pipe: cannot be written: is a device, pipe or socket");
  expect_refused(shoal("data pack small.tok text.txt --vocab 100"), "100");
  expect_refused(shoal("data pack none.tok nowhere/*.txt"), "nowhere/*.txt");
}

TEST_F(Cli, RunDirectory) {
  dir_.write("file", "in the way");
  expect_refused(train("run.dir=file/run"), "run directory file/run: it cannot be written");
  expect_refused(train("run.dir=/proc/shoal"), "run directory /proc/shoal: it cannot be written");
  ASSERT_EQ(test::shell("mkdir " + (dir_ / "pipes") + " && mkfifo " + (dir_ / "pipes/metrics.jsonl")).code,
            0);
  expect_refused(train("run.dir=pipes"), "run directory pipes: metrics.jsonl cannot be written: ");
  expect_refused(shoal("sample none"), "none: not a finished run (none/job.toml is missing)");
  expect_refused(shoal("diff none none"), "none: not a run");
}

TEST_F(Cli, OneRunAtATimeInADirectory) {
  EXPECT_EQ(train("").code, 0);
  const std::string metrics = test::read_file(dir_ / "run/metrics.jsonl");
  {
    const int fd = ::open((dir_ / "run/metrics.jsonl").c_str(), O_WRONLY | O_CLOEXEC);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(fd, F_SETLK, &whole), 0);
    expect_refused(train(""),
                   "run directory run: metrics.jsonl cannot be written: another run is writing it");
    ::close(fd);
  }
  EXPECT_EQ(test::read_file(dir_ / "run/metrics.jsonl"), metrics);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run/model.safetensors"));
  EXPECT_EQ(train("").code, 0);
}

TEST_F(Cli, ARunRemovesOnlyRecordsOfRuns) {
  EXPECT_EQ(train("", "SHOAL_CHECK=bits").code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run/bits/rank-0.jsonl"));
  EXPECT_EQ(train("").code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/bits"));
  ASSERT_EQ(test::shell("mkdir " + (dir_ / "run/bits")).code, 0);
  dir_.write("run/bits/drill.txt", "the user's");
  dir_.write("run/bits/rank-7.jsonl", "");
  EXPECT_EQ(train("").code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run/bits/drill.txt"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/bits/rank-7.jsonl"));
  EXPECT_EQ(train("", "SHOAL_CHECK=bits").code, 0);
}

TEST_F(Cli, AFinishedRunStaysUntilTheNextHasFinished) {
  const auto read = [&](const std::string& name) { return test::read_file(dir_ / name); };
  const auto exists = [&](const std::string& name) { return std::filesystem::exists(dir_ / name); };
  EXPECT_EQ(train("").code, 0);
  const std::string job = read("run/job.toml"), metrics = read("run/metrics.jsonl"),
                    weights = read("run/model.safetensors");
  // It fails before its first step is done: nothing has changed.
  EXPECT_NE(train("train.seed=2 optimizer.lr=1e38 train.clip=0 data.verify=wrong").code, 0);
  EXPECT_NE(train("train.seed=2 model.vocab=100").code, 0);
  EXPECT_EQ(read("run/job.toml"), job);
  EXPECT_EQ(read("run/metrics.jsonl"), metrics);
  EXPECT_EQ(read("run/model.safetensors"), weights);
  // It fails later: the finished run is beside it, whole.
  const Result late = shoal("train " + keys_ + "optimizer.lr=1e38 optimizer.schedule=constant");
  EXPECT_EQ(late.code, 1) << late.output;
  EXPECT_NE(late.output.find("run holds a finished run: its records are in run/previous until this one has "
                             "finished\n"),
            std::string::npos)
      << late.output;
  EXPECT_FALSE(exists("run/model.safetensors"));
  EXPECT_EQ(read("run/previous/job.toml"), job);
  EXPECT_EQ(read("run/previous/metrics.jsonl"), metrics);
  EXPECT_EQ(read("run/previous/model.safetensors"), weights);
  EXPECT_EQ(shoal("sample run/previous --count 3").code, 0);
  // The next finishes, in spite of what a killed run left.
  dir_.write("run/model.safetensors.tmp.4194999.0", "half");
  const Result next = shoal("train " + keys_);
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_NE(next.output.find("run holds records of a run that did not finish: they are replaced\n"),
            std::string::npos)
      << next.output;
  EXPECT_EQ(read("run/model.safetensors"), weights);
  EXPECT_FALSE(exists("run/previous"));
  EXPECT_FALSE(exists("run/model.safetensors.tmp.4194999.0"));
}

TEST_F(Cli, AFolderOfTheUsersIsNotTakenForAnEarlierRun) {
  EXPECT_EQ(train("").code, 0);
  dir_.write("run/previous/model.safetensors", "the user's");
  expect_refused(train(""), "run directory run: previous cannot be written: it is there already");
  EXPECT_EQ(test::read_file(dir_ / "run/previous/model.safetensors"), "the user's");
}

TEST_F(Cli, Sampling) {
  EXPECT_EQ(train("").code, 0);
  expect_refused(shoal("sample run --count -1"), "count = -1: expected 0 or more");
  expect_refused(shoal("sample run --temperature -1"), "temperature = -1: expected 0 or more");
  expect_refused(shoal("sample run --top-k -1"), "top_k = -1: expected 0 (all) or more");
  expect_refused(shoal("sample run --seed -1"), "--seed: -1: expected 0 to 18446744073709551615");
  expect_refused(shoal("sample run --seed 18446744073709551616"), "18446744073709551616: expected 0 to");
  EXPECT_EQ(shoal("sample run --count 3 --seed 18446744073709551615").code, 0);
  std::string weights = test::read_file(dir_ / "run/model.safetensors");
  weights.replace(weights.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // the embedding's last: NaN
  dir_.write("run/model.safetensors", weights);
  expect_refused(shoal("sample run --count 3"), "generated token 0: the model's logit of token ");
}

TEST_F(Cli, Launching) {
  expect_refused(train("", "WORLD_SIZE=2 RANK=0"), "WORLD_SIZE=2");
  expect_refused(train("", "WORLD_SIZE=2"), "RANK");
  expect_refused(train("parallel.data=2"), "needs 2 ranks, and there is 1");
  expect_refused(train("", "SHOAL_CHECK=maybe"), "SHOAL_CHECK=maybe: expected 0, 1 or bits");
}

TEST_F(Cli, AWarmUpLongerThanTheRunIsSaid) {
  const Result r = train("optimizer.warmup=30 train.steps=2");
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_EQ(test::count(r.output, "\n"), 1) << r.output;
  EXPECT_NE(r.output.find("optimizer.warmup = 30 is longer than train.steps = 2"), std::string::npos)
      << r.output;
}

TEST_F(Cli, NanEndsTheRunWithItsLayer) {
  const Result r = train("optimizer.lr=1e38 optimizer.warmup=0 optimizer.schedule=constant");
  expect_refused(r, "step 2: the loss is ", 1);
  EXPECT_NE(r.output.find("the first layer with a value that is not finite is "), std::string::npos)
      << r.output;
  EXPECT_EQ(r.output.find("-nan"), std::string::npos) << r.output;
}

TEST_F(Cli, RecordsProgressSampleAndDiff) {
  const Result loud = shoal("train " + keys_);
  EXPECT_EQ(loud.code, 0) << loud.output;
  EXPECT_NE(loud.output.find("memory of a rank, predicted: parameters "), std::string::npos) << loud.output;
  EXPECT_NE(loud.output.find("step 3/3  loss "), std::string::npos) << loud.output;
  EXPECT_NE(loud.output.find("validation loss "), std::string::npos) << loud.output;
  EXPECT_NE(loud.output.find("peak memory of a rank "), std::string::npos) << loud.output;
  EXPECT_EQ(loud.output.find('\r'), std::string::npos);  // not a terminal

  std::ifstream metrics(dir_ / "run/metrics.jsonl");
  std::string line;
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(std::getline(metrics, line));
    const auto j = nlohmann::json::parse(line);
    EXPECT_EQ(j["step"], step);
    EXPECT_EQ(j["tokens"], 64);
    EXPECT_EQ(j.contains("val_loss"), step == 3);
    EXPECT_GT(j["peak_bytes"], 0);
  }
  EXPECT_FALSE(std::getline(metrics, line));

  const Result quiet = train("run.dir=again train.threads=1");
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.output, "");
  const Result same = shoal("diff run again");
  EXPECT_EQ(same.code, 0) << same.output;
  EXPECT_EQ(train("run.dir=other train.seed=5").code, 0);
  const Result different = shoal("diff run other");
  EXPECT_EQ(different.code, 1) << different.output;
  EXPECT_NE(different.output.find("metrics.jsonl line 1 (step 1): loss"), std::string::npos)
      << different.output;

  // The whole job stands in job.toml: it runs again as it is.
  EXPECT_EQ(shoal("train --quiet run/job.toml run.dir=third").code, 0);
  EXPECT_EQ(shoal("diff run third").code, 0);

  const Result sample = shoal("sample run --prompt fish --count 20 --seed 3");
  EXPECT_EQ(sample.code, 0) << sample.output;
  EXPECT_EQ(sample.output.rfind("fish", 0), 0u) << sample.output;
  EXPECT_EQ(sample.output.size(), 25u);
  EXPECT_EQ(shoal("sample run --prompt fish --count 20 --seed 3").output, sample.output);
}

TEST_F(Cli, RanksAsThreads) {
  EXPECT_EQ(train("comm.backend=local parallel.data=2 reproducible.on=true reproducible.data=4").code, 0);
  EXPECT_EQ(train("run.dir=one reproducible.on=true reproducible.data=4").code, 0);
  EXPECT_EQ(shoal("diff run one").code, 0);
  expect_refused(train("comm.backend=local parallel.data=3"), "train.global_batch = 4 does not divide by 3");
}

TEST_F(Cli, MoreThanTheMachineHasIsRefused) {
  expect_refused(train("comm.backend=local parallel.data=2000 train.global_batch=2000"),
                 "2000 ranks on this host x train.threads = 1 are 2000 threads: with ");
  expect_refused(train("comm.backend=local parallel.data=9000000000000000000"), " threads: with ");
  expect_refused(train("model.layers=1000 model.hidden=65536"),
                 "with swap: what lowers it: train.micro_batch (now 4");
}

TEST_F(Cli, InfoSaysWhatIsMissing) {
  const Result r = shoal("info");
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.output.find("cuda     no   "), std::string::npos) << r.output;
  EXPECT_NE(r.output.find("kernels"), std::string::npos);
}

#ifdef SHOAL_HAVE_MPIRUN
TEST_F(Cli, WhatAllRanksRefuseIsPrintedOnce) {
  for (const auto& [more, message] : std::vector<std::pair<std::string, std::string>>{
           {"train.stepz=5", "unknown key train.stepz"},
           {"run.dir=text.txt/run", "rank 0: run directory text.txt/run"},
           {"train.global_batch=3", "train.global_batch = 3 does not divide by 2 data-parallel ranks"}}) {
    const Result r = mpi(2, more);
    EXPECT_EQ(r.code, 2) << r.output;
    EXPECT_EQ(test::count(r.output, "shoal: "), 1) << r.output;
    EXPECT_NE(r.output.find("shoal: " + message), std::string::npos) << r.output;
  }
}

TEST_F(Cli, OneRankSpeaksUnderALauncher) {
  const auto both = [&](const std::string& arguments) {
    return test::shell(fmt::format("cd {} && timeout 120 sh {}/tests/mpirun.sh 2 {} {}", dir_.path().string(),
                                   SHOAL_SOURCE_DIR, SHOAL_CLI, arguments));
  };
  EXPECT_EQ(train("").code, 0);
  for (const std::string arguments : {"info", "--version", "help", "train --keys", "sample run --count 5",
                                      "diff run run", "data show text.txt", "data pack out.tok text.txt"}) {
    const Result r = both(arguments);
    EXPECT_EQ(r.code, 0) << arguments << ": " << r.output;
    EXPECT_EQ(r.output, shoal(arguments).output) << arguments;
  }
  const Result wrong = both("diff run");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(test::count(wrong.output, "shoal: diff: RUN_B is required"), 1) << wrong.output;
}

TEST_F(Cli, OneRankFailingEndsTheJobWithItsMessage) {
  // Metrics go to a full device: rank 0 fails alone after the first step, while rank 1 waits in the next.
  dir_.write("run/job.toml", "");
  ASSERT_EQ(test::shell("ln -s /dev/full " + (dir_ / "run/metrics.jsonl")).code, 0);
  const Result r = mpi(2, "train.steps=100000", "SHOAL_TIMEOUT=60");
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.code, 124) << "it did not end";
  EXPECT_NE(r.output.find("step 1: run/metrics.jsonl cannot be written: No space left on device"),
            std::string::npos)
      << r.output;
}

TEST_F(Cli, RanksWithDifferentJobsAreRefused) {
  dir_.write("each.sh",
             fmt::format("exec {} train --quiet {} train.seed=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\n",
                         SHOAL_CLI, keys_));
  const Result r = test::shell(fmt::format("cd {} && timeout 120 sh {}/tests/mpirun.sh 2 sh each.sh",
                                           dir_.path().string(), SHOAL_SOURCE_DIR));
  EXPECT_EQ(r.code, 2) << r.output;
  EXPECT_NE(r.output.find("rank 1: the job differs between ranks: \"seed = 1\" here, \"seed = 0\" on rank 0"),
            std::string::npos)
      << r.output;
}

TEST_F(Cli, RanksWithDifferentDataAreRefused) {
  ASSERT_EQ(test::shell(fmt::format("mkdir {0}/host0 {0}/host1", dir_.path().string())).code, 0);
  const std::string text = test::sample_text(6000);
  dir_.write("host0/text.txt", text);
  dir_.write("host1/text.txt", text.substr(0, 5900));  // one host has an older file
  dir_.write("each.sh",
             fmt::format("cd host${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} && exec {} train --quiet {}\n",
                         SHOAL_CLI, keys_));
  const Result r = test::shell(fmt::format("cd {} && timeout 120 sh {}/tests/mpirun.sh 2 sh each.sh",
                                           dir_.path().string(), SHOAL_SOURCE_DIR));
  EXPECT_EQ(r.code, 2) << r.output;
  EXPECT_NE(r.output.find("rank 1: the content of data.train differs between ranks: \"5900 tokens of u8"),
            std::string::npos)
      << r.output;
}
#endif

}  // namespace
}  // namespace shoal
#endif
