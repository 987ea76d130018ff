"""vLLM's command line, and the Python that has it."""

import subprocess
import sys
from pathlib import Path

import pytest

from rows import each
from webtraj import errors
from webtraj.serving import VllmLaunch, interpreters
from webtraj.settings import credentials


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def arguments(launch, host="127.0.0.1"):
    python, *rest = launch.command(host, 8123)
    assert python == str(launch.python)
    assert rest[:2] == ["-m", "vllm.entrypoints.openai.api_server"]
    return rest[2:]


def test_defaults_leave_the_rest_to_vllm(model):
    launch = VllmLaunch(model=model, python=sys.executable)
    assert arguments(launch) == [
        f"--model={model}",
        "--host=127.0.0.1",
        "--port=8123",
        "--tensor-parallel-size=1",
        "--data-parallel-size=1",
        "--dtype=auto",
        "--logprobs-mode=processed_logprobs",
        "--served-model-name",
        "policy",
        f"{model}",
        "--structured-outputs-config.backend=guidance",
        "--structured-outputs-config.disable_any_whitespace=true",
        "--middleware=webtraj_vllm_worker.UserGate",
    ]
    assert {**launch.variables(), "PYTHONPATH": ""} == {
        "FORWARDED_ALLOW_IPS": "none",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": "",
        "VLLM_NO_USAGE_STATS": "1",
    }


@each(
    ("settings", "expected"),
    [
        ({"name": "mine"}, ["--served-model-name", "mine"]),
        ({"tensor_parallel": 4}, ["--tensor-parallel-size=4"]),
        ({"data_parallel": 2}, ["--data-parallel-size=2"]),
        ({"max_model_len": 8192}, ["--max-model-len=8192"]),
        ({"max_num_seqs": 64}, ["--max-num-seqs=64"]),
        ({"gpu_memory_utilization": 0.5}, ["--gpu-memory-utilization=0.5"]),
        ({"kv_cache_gib": 1.5}, ["--kv-cache-memory-bytes=1610612736"]),
        ({"dtype": "float32"}, ["--dtype=float32"]),
        ({"enforce_eager": True}, ["--enforce-eager"]),
        ({"images_per_prompt": 3}, ["--limit-mm-per-prompt.image=3"]),
        ({"logprobs_mode": "raw_logprobs"}, ["--logprobs-mode=raw_logprobs"]),
        ({"runtime_lora": True, "max_lora_rank": 64}, ["--enable-lora", "--max-lora-rank=64"]),
        ({"structure_backend": "auto"}, ["--structured-outputs-config.backend=auto"]),
        ({"dev_mode": True}, ["--worker-extension-cls=webtraj_vllm_worker.WebtrajWorker"]),
        ({"dev_mode": True}, ["--middleware=webtraj_vllm_worker.WeightsGate"]),
        ({"version": "round-1"}, ["--middleware=webtraj_vllm_worker.WeightsGate"]),
        ({"sleep_mode": True}, ["--enable-sleep-mode"]),
        ({"extra_args": ("--seed", "7")}, ["--seed", "7"]),
    ],
)
def test_setting_becomes_an_argument(model, settings, expected):
    given = arguments(VllmLaunch(model=model, python=sys.executable, **settings))
    assert set(expected) <= set(given)


def test_own_arguments_come_last_so_that_they_win(model):
    launch = VllmLaunch(model=model, python=sys.executable, extra_args=("--dtype=half",))
    assert arguments(launch)[-1] == "--dtype=half"


def test_lora_adapters_are_named(model, tmp_path):
    launch = VllmLaunch(model=model, python=sys.executable, lora={"clicker": tmp_path})
    assert arguments(launch)[-3:] == ["--enable-lora", "--lora-modules", f"clicker={tmp_path}"]


@each(
    ("settings", "variable"),
    [
        ({"dev_mode": True}, ("VLLM_SERVER_DEV_MODE", "1")),
        ({"runtime_lora": True}, ("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True")),
        ({"version": "round-1"}, ("WEBTRAJ_WEIGHTS_VERSION", "round-1")),
        ({"environment": {"HF_HUB_OFFLINE": "0"}}, ("HF_HUB_OFFLINE", "0")),
    ],
)
def test_setting_becomes_a_variable(model, settings, variable):
    assert variable in VllmLaunch(model=model, **settings).variables().items()


@each(
    ("given", "key", "rest"),
    [
        (("--api-key", "a", "--seed=3"), "a", ["--seed=3"]),
        (("--api-key=a=1",), "a=1", []),
        (("--api_key", "a", "--seed", "3"), "a", ["--seed", "3"]),
        (("--api-key=a", "--api_key=b"), "b", []),
        (("--api-key", "a", "b", "--seed=3"), "a", ["--seed=3", "--api-key", "a", "b"]),
        (("--seed=3", "--api-key"), "of-variable", ["--seed=3", "--api-key"]),
    ],
)
def test_a_single_api_key_is_passed_in_a_variable(model, given, key, rest):
    environment = {"VLLM_API_KEY": "of-variable"}
    launch = VllmLaunch(
        model=model, python=sys.executable, extra_args=given, environment=environment
    )
    plain = arguments(VllmLaunch(model=model, python=sys.executable))
    assert launch.api_key == key
    assert arguments(launch) == [*plain, *rest]
    several = rest[-1:] == ["b"]  # The variable holds one.
    assert launch.variables()["VLLM_API_KEY"] == ("of-variable" if several else key)


def test_errors_conceal_the_api_key(model, monkeypatch):
    monkeypatch.setattr(credentials, "KEYS", set())
    key = "q7Zk29fLw0aPx3"
    VllmLaunch(model=model, extra_args=("--api_key", key)).variables()
    assert key not in credentials.conceal(f"vLLM's arguments are ['{key}']")


def test_other_weights_keep_the_name(model, tmp_path):
    launch = VllmLaunch(model=model, python=sys.executable, dtype="float32")
    other = launch.with_weights(tmp_path / "round-1", "round-1")
    assert (other.served_name, other.model, other.version, other.dtype) == (
        "policy", tmp_path / "round-1", "round-1", "float32"
    )  # fmt: skip


def test_name_on_the_hub_is_kept_whole():
    launch = VllmLaunch(model="Qwen/Qwen3-0.6B", python=sys.executable)
    assert launch.served_names == ("Qwen/Qwen3-0.6B",)
    assert "Qwen/Qwen3-0.6B" in arguments(launch)
    assert "HF_HUB_OFFLINE" not in launch.variables()


@each(
    ("settings", "match"),
    [
        ({"model": "./nowhere"}, "No model folder at"),
        ({"model": ""}, "No model folder at"),
        ({"model": __file__}, "No model folder at"),
        ({"model": Path(__file__).parent}, r"No config\.json in"),
        ({"tensor_parallel": 0}, "tensor_parallel must be 1 or more; got 0"),
        ({"data_parallel": -1}, "data_parallel must be 1 or more; got -1"),
        ({"max_model_len": 0}, "max_model_len must be"),
        ({"max_num_seqs": 0}, "max_num_seqs must be"),
        ({"gpu_memory_utilization": 1.5}, "at most 1; got 1.5"),
        ({"lora": {"clicker": "./nowhere"}}, "adapter 'clicker'"),
        ({"python": "./no-python"}, "python is './no-python'"),
        ({"extra_args": ("--host=0.0.0.0",)}, r"extra_args has '--host=0\.0\.0\.0'"),
        ({"extra_args": ("--port", "80")}, "extra_args has '--port'"),
    ],
)
def test_wrong_setting_is_refused(model, settings, match):
    launch = VllmLaunch(**{"model": model, "python": sys.executable, **settings})
    with pytest.raises(errors.InvalidInputError, match=match):
        launch.command("127.0.0.1", 8123)


@each("setting", ["dev_mode", "runtime_lora"])
@each("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_power_over_the_server_is_for_this_machine(model, host, setting):
    launch = VllmLaunch(model=model, python=sys.executable, **{setting: True})
    assert f"--host={host}" in arguments(launch, host)


@each("setting", ["dev_mode", "runtime_lora"])
@each("host", ["0.0.0.0", "::", "10.1.2.3", "gpu-node-7"])
def test_power_over_the_server_is_refused_where_others_reach_it(model, host, setting):
    launch = VllmLaunch(model=model, python=sys.executable, **{setting: True})
    with pytest.raises(errors.InvalidInputError, match=f"{setting} would allow any machine"):
        launch.command(host, 8123)


def test_adapters_from_everywhere_are_for_those_who_say_so(model):
    settings = {"runtime_lora": True, "runtime_lora_exposed": True, "python": sys.executable}
    assert "--enable-lora" in arguments(VllmLaunch(model=model, **settings), "0.0.0.0")
    launch = VllmLaunch(model=model, dev_mode=True, **settings)
    with pytest.raises(errors.InvalidInputError, match="dev_mode would allow any machine"):
        launch.command("0.0.0.0", 8123)


class TestFindVllmPython:
    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.delenv(interpreters.VLLM.variable, raising=False)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        monkeypatch.chdir(tmp_path)

    @pytest.fixture
    def venv_python(self, tmp_path):
        python = tmp_path / ".venv-vllm" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        return python

    def test_named_one_comes_first(self, venv_python, monkeypatch):
        monkeypatch.setenv(interpreters.VLLM.variable, str(venv_python))
        assert interpreters.require_python(interpreters.VLLM, sys.executable) == Path(
            sys.executable
        )

    def test_variable_comes_next(self, monkeypatch, venv_python):
        monkeypatch.setenv(interpreters.VLLM.variable, sys.executable)
        assert interpreters.require_python(interpreters.VLLM) == Path(sys.executable)

    def test_virtual_environment_is_found_from_below_and_not_resolved(
        self, venv_python, tmp_path, monkeypatch
    ):
        below = tmp_path / "a" / "b"
        below.mkdir(parents=True)
        monkeypatch.chdir(below)
        assert interpreters.require_python(interpreters.VLLM) == venv_python

    def test_environment_that_webtraj_made_comes_last(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        home = tmp_path / "data" / "webtraj" / "venv-vllm"
        home.mkdir(parents=True)
        assert interpreters.find_python(interpreters.VLLM) is None  # Half an installation.
        (home / ".webtraj-installed").touch()
        assert interpreters.find_python(interpreters.VLLM) == home / "bin" / "python"

    def test_python_beside_a_command_on_the_path_is_found(self, tmp_path, monkeypatch):
        monkeypatch.delenv(interpreters.LLAMAFACTORY.variable, raising=False)
        venv = tmp_path / "an environment" / "bin"
        venv.mkdir(parents=True)
        (venv / "python").symlink_to(sys.executable)
        (venv / "llamafactory-cli").write_text("#!/bin/sh\n")
        (venv / "llamafactory-cli").chmod(0o755)
        linked = tmp_path / "bin"
        linked.mkdir()
        (linked / "llamafactory-cli").symlink_to(venv / "llamafactory-cli")
        monkeypatch.setenv("PATH", str(linked))
        assert interpreters.find_python(interpreters.LLAMAFACTORY) == venv / "python"

    def test_variable_that_names_no_program_is_refused(self, monkeypatch):
        monkeypatch.setenv(interpreters.VLLM.variable, "/nowhere/python")
        with pytest.raises(errors.InvalidInputError, match=f"{interpreters.VLLM.variable} is"):
            interpreters.require_python(interpreters.VLLM)

    def test_without_any_it_says_how_to_get_one(self):
        with pytest.raises(errors.MissingDependencyError, match="--install"):
            interpreters.require_python(interpreters.VLLM)


def test_workers_find_their_extension_beside_the_path_at_hand(model, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    variables = VllmLaunch(model=model, dev_mode=True).variables()
    code = "import webtraj_vllm_worker as w; print(w.WebtrajWorker.repack_weights.__name__)"
    told = subprocess.check_output(
        [sys.executable, "-S", "-c", code], env=dict(variables), text=True, cwd=model
    )
    assert told == "repack_weights\n"
    assert variables["PYTHONPATH"].endswith(":/somewhere")
