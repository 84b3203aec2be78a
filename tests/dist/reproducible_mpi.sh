#!/bin/sh
# reproducible_mpi.sh SHOAL SOURCE_DIR: one reproducible job on 1, 2, 3 and 4 MPI ranks, with 1 and 2 threads a rank:
# the same bits of loss and gradient norm for 50 steps, and of every parameter at the end.
set -eu
shoal=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
seq 1 3000 > text.txt
status=0
for model in gpt llama; do
  for ranks in 1 2 3 4; do
    for threads in 1 2; do
      run=$model-$ranks-$threads
      # Both ZeRO stages take part.
      timeout 250 sh "$source/tests/mpirun.sh" "$ranks" "$shoal" train --quiet model.type=$model data.train=text.txt \
        model.layers=2 model.hidden=32 model.heads=2 model.seq=16 train.steps=50 train.global_batch=12 \
        optimizer.lr=1e-2 optimizer.warmup=5 reproducible.on=true reproducible.data=12 run.dir=$run \
        parallel.zero=$(((ranks + threads) % 2)) train.threads=$threads
      if ! result=$("$shoal" diff $model-1-1 $run) || ! cmp $model-1-1/model.safetensors $run/model.safetensors; then
        echo "$model on $ranks ranks with $threads threads: $result"
        status=1
      fi
    done
  done
  [ "$(wc -l < $model-1-1/metrics.jsonl)" -eq 50 ] || { echo "$model: not 50 steps"; status=1; }
done
# What shows that the comparison can fail: another seed.
"$shoal" train --quiet gpt-1-1/job.toml train.seed=2 run.dir=other
if "$shoal" diff gpt-1-1 other; then
  echo "another seed gave the same run"
  status=1
fi
exit $status
