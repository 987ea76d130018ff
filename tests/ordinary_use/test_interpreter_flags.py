"""People start Python with flags: `-O`, `-W error`, `-X dev`, `-I`, and asyncio's debug mode.

Nothing webtraj does may rest on an `assert` or a docstring, or warn.
"""

import pkgutil
import subprocess
import sys

import pytest

import webtraj

PROGRAM = """
    import asyncio, sys
    import dm_env
    import webtraj

    class Env:
        async def reset(self):
            return dm_env.restart({"text": "a", "pixels": b"1" * 5000})
        async def step(self, action):
            return dm_env.termination(1.0, {"text": "b", "pixels": b"2" * 5000})
        async def close(self):
            pass

    async def main(make, folder):
        async with make(folder) as collector:
            async with webtraj.TrajectoryCollectingEnvironment(Env(), collector) as env:
                await env.reset()
                await env.step("go")
        (episode,) = webtraj.open_dataset(folder)
        if len(episode.steps) != 2 or not episode.terminated:
            sys.exit(f"read back: {episode}")
        if bytes(episode.steps[1].observation["pixels"]) != b"2" * 5000:
            sys.exit("other bytes")

    asyncio.run(main(webtraj.JsonTrajectoryCollector, FOLDER + "-json"))
    asyncio.run(main(webtraj.ProtobufTrajectoryCollector, FOLDER + "-pb"))
    print("done")
"""

WAYS = {
    "O": (["-O"], {}),
    "OO": (["-OO"], {}),
    "W error": (["-W", "error"], {}),
    "X dev": (["-X", "dev", "-W", "error"], {}),
    "asyncio debug": ([], {"PYTHONASYNCIODEBUG": "1"}),
    "isolated": (["-I"], {}),
    "not UTF-8": ([], {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
}
_FAST = "W error"


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == _FAST else pytest.mark.slow) for way in WAYS]
)
@pytest.mark.slow
def test_recording_and_reading(run_script, tmp_path, way):
    options, environment = WAYS[way]
    source = PROGRAM.replace("FOLDER", repr(str(tmp_path / "data")))
    done = run_script(source, *options, **environment)
    assert done.stdout == "done\n"
    # asyncio's debug mode reports slow callbacks, which a busy machine has.
    assert not [line for line in done.stderr.splitlines() if not line.startswith("Executing ")]


def public_modules():
    return [
        module.name
        for module in pkgutil.walk_packages(webtraj.__path__, "webtraj.")
        if not any(part.startswith("_") for part in module.name.split("."))
    ]


@pytest.mark.slow
def test_every_module_is_imported_without_a_warning():
    source = f"""
import importlib, sys
for name in {public_modules()!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        # What belongs to an extra that is not installed: it says so, or names the package.
        if (error.name or "webtraj").startswith("webtraj") and "pip install" not in str(error):
            raise
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
