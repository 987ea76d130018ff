"""An experiment resumes what is in its folder, and refuses a folder of other settings."""

import dataclasses
import json

import pytest

from two_cores import experiments


@dataclasses.dataclass(frozen=True)
class Scale:
    seeds: tuple[int, ...] = (1, 2)
    throws: int = 3


def test_an_experiment_resumes_in_its_folder_and_refuses_other_settings(
    tmp_path, monkeypatch, capsys
):
    made = []

    async def throw(lab, seed):
        made.append(seed)
        return [seed * number for number in range(lab.scale.throws)]

    async def experiment(lab):
        seeds = {
            seed: await lab.kept(f"thrown/{seed}", throw(lab, seed)) for seed in lab.scale.seeds
        }
        return {"seeds": seeds}

    def run(*words):
        monkeypatch.setattr("sys.argv", ["experiment", "--out", str(tmp_path), *words])
        experiments.run(
            experiments.Lab, experiment, lambda results: f"{results['seeds']}\n",
            about="Throw.", out="unused", scale=Scale(), small=Scale(throws=1), counts=("throws",),
        )  # fmt: skip

    run("--seeds", "2")
    run()
    assert made == [2, 1]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seeds"] == {"1": [0, 1, 2], "2": [0, 2, 4]}
    assert results["scale"] == {"seeds": [1, 2], "throws": 3}
    assert (tmp_path / "results.md").read_text() == "{1: [0, 1, 2], 2: [0, 2, 4]}\n"
    for words in (["--small"], ["--throws", "4"]):
        with pytest.raises(SystemExit):
            run(*words)
        assert "has results of other settings" in capsys.readouterr().err
    assert made == [2, 1]
