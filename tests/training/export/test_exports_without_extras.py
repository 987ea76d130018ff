"""What the commands for samples say, or do all the same, where webtraj's core is all there is."""

import subprocess
import sys
from pathlib import Path

import pytest

from webtraj import errors
from webtraj.agents.models.base import Message
from webtraj.training.export import export_samples
from webtraj.training.samples import Sample, SampleKey

WITHOUT = (
    "import sys\n"
    "for name in ('yaml', 'omegaconf', 'PIL', 'pyarrow', 'pyarrow.parquet', 'torch'):\n"
    "    sys.modules[name] = None\n"
    "import webtraj.cli\n"
    "webtraj.cli.main()\n"
)


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def samples():
    return [
        Sample(
            key=SampleKey(f"e{number}", 1),
            messages=(Message.of("user", f"Press {number}."),),
            completion=f"click('{number}')",
            task="t",
        )
        for number in range(3)
    ]


@pytest.mark.slow
def test_an_export_that_no_training_is_configured_for_is_checked(samples, tmp_path):
    export_samples({"train": samples}, tmp_path / "sft", format="sharegpt")
    done = run("export", "check", "sft", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No problem found: " in done.stdout


@pytest.mark.slow
def test_a_configured_one_says_what_to_install(samples, tmp_path):
    export_samples({"train": samples}, tmp_path / "sft", format="sharegpt")
    (tmp_path / "sft" / "train_config.yaml").write_text("dataset: train\n")
    done = run("export", "check", "sft", cwd=tmp_path)
    assert done.returncode == 1
    assert errors.install_command("config") in done.stderr
    assert "Traceback" not in done.stderr
