"""The recipes' servers, as far as vLLM itself reads them without starting; and models' sizes."""

import json
import subprocess
from pathlib import Path

from webtraj import loop
from webtraj.loop import load_loop_config
from webtraj.serving import VllmLaunch, interpreters, prepare_launch

RECIPES = sorted(Path(loop.__file__).with_name("files").glob("*.yaml"))

PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
for line in sys.stdin:
    given = make_arg_parser(FlexibleArgumentParser()).parse_args(json.loads(line))
    validate_parsed_serve_args(given)
    read = given.model, given.data_parallel_size, given.max_model_len, given.middleware
    print(json.dumps(read))
"""


def test_vllm_takes_the_arguments_of_every_recipe_and_way(models):
    launches = []
    for recipe in map(load_loop_config, RECIPES):
        launch = VllmLaunch(model="some/model", **recipe.serve.options)
        launches += [prepare_launch(way, launch) for way in ("reload", "lora", "restart")]
    launches.append(VllmLaunch(model="some/model", version="1", sleep_mode=True, dev_mode=True))
    commands = [launch.command("127.0.0.1", 8000) for launch in launches]
    assert all(command[1] == "-m" for command in commands)
    told = subprocess.run(
        [interpreters.require_python(interpreters.VLLM), "-c", PARSE],
        input="".join(json.dumps(command[3:]) + "\n" for command in commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    read = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("[")]
    weights, user = "webtraj_vllm_worker.WeightsGate", "webtraj_vllm_worker.UserGate"
    assert read == [
        [
            "some/model",
            one.data_parallel,
            one.max_model_len,
            [weights] * (one.dev_mode or one.version != "") + [user],
        ]
        for one in launches
    ]
