#!/bin/sh
# Plays MiniWoB++ tasks that the loop on two cores has not trained on, once with what it has made and
# once at random. Arguments: the loop's folder, and one for what is played.
set -eu
[ $# = 2 ] || { echo "usage: sh examples/two_cores/unseen_tasks.sh LOOP OUT" >&2; exit 2; }
loop=$(realpath "$1")
out=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
sh scripts/environment.sh train vllm
webtraj=".venv-train/bin/python -m webtraj"

tasks=$(sed 's/#.*//' examples/two_cores/unseen_tasks.txt | tr -s '\n ' ',,' | sed 's/^,//; s/,$//')
common="preset=[$tasks] iteration.split=test iteration.number=1 attempts=25"
common="$common parallel=8 max_steps=10 max_retries=2 operation_timeout=120 seed=77"

# As in the recipe two_cores, with room for longer pages.
port=${PORT:-18555}
OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_ENABLE_V1_MULTIPROCESSING=0 \
    $webtraj serve "$loop/model.pt" --name policy --port "$port" --dtype float32 \
    --max-model-len 1024 --max-num-seqs 64 --kv-cache-memory-bytes 536870912 --enforce-eager \
    --no-enable-chunked-prefill --max-num-batched-tokens=8192 \
    --distributed-executor-backend=uni &
server=$!
trap 'kill -INT $server 2>/dev/null; wait $server' EXIT
until .venv-train/bin/python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/health')" \
    2>/dev/null; do
    kill -0 $server
    sleep 1
done
$webtraj rollout $common --agent pointing --temperature 0.0 --model policy \
    --base-url "http://127.0.0.1:$port/v1" --out "$out/learned"
$webtraj rollout $common --agent random --out "$out/random"
