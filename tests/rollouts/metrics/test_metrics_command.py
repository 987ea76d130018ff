"""`webtraj metrics`: what it prints, what it keeps, what it refuses."""

import json

import pytest
import typer
from measured_episodes import make_trajectory
from typer.testing import CliRunner

from rows import each
from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.cli.metrics import metrics
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Answer, Click, GoBack
from webtraj.metrics import measure
from webtraj.rollouts import RunSpec, collect


def call(*arguments):
    """Calls the command as `webtraj` does; raises what it raises."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(metrics)
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def rows(output):
    """Returns the lines of a table, by their first cells; cells stand two spaces apart."""
    found = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        if cells:
            found[cells[0]] = cells[1:]
    return found


@pytest.fixture
def dataset(tmp_path):
    failed = {"outcome": Outcome.ENV_ERROR, "reason": EndReason.ERRORED}
    with DatasetWriter(tmp_path / "one") as writer:
        writer.add(make_trajectory([Click("1"), Answer("7")], episode_id="e1", task="a"))
        writer.add(make_trajectory([GoBack()], episode_id="e2", task="a", outcome=Outcome.FAILURE))
        writer.add(make_trajectory([Click("1")], episode_id="e3", task="b", **failed))
    return tmp_path / "one"


@pytest.fixture
def other(tmp_path):
    with DatasetWriter(tmp_path / "two") as writer:
        writer.add(make_trajectory([Answer("7")], episode_id="e1", task="a", policy="better"))
    return tmp_path / "two"


def test_every_number_stands_beside_its_counts(dataset):
    found = rows(call(dataset))
    assert found["episodes"] == ["3"]
    assert found["success rate"] == ["50.0%", "9.5% to 90.5%", "1 of 2"]
    assert found["infrastructure failures"] == ["1", "in no success rate"]
    assert found["crashed rate"][0::2] == ["33.3%", "1 of 3, by the rule 'typed'"]
    assert found["go-back rate"] == ["33.3%", "1 / 3"]
    assert found["characters per response"] == ["-", "0 / 0"]
    assert found["pass@2"] == ["100.0%", "-", "tasks: 1"]
    assert found["pass^2"] == ["0.0%", "-", "tasks: 1"]


def test_health_stands_before_any_rate(dataset, other):
    said = " ".join(call(dataset).split())
    health = f"{dataset}: 3 episodes; infrastructure failures 1 of 3."
    assert 0 <= said.index(health) < said.index("success rate")
    said = " ".join(call("--compare", dataset, other).split())
    assert said.index(health) < said.index(f"{other}: 1 episode; no") < said.index("success rate")
    assert "steps not read of 3" in call(dataset, "--no-steps")


def test_json_is_what_metrics_json_holds(dataset, other):
    one, two = map(json.loads, call(dataset, other, "--json").splitlines())
    assert one == json.loads(json.dumps(measure(open_dataset(dataset)).to_data()))
    assert two["by"]["policy"]["better"]["success_rate"]["value"] == 1.0
    assert list(json.loads(call(dataset, "--json", "--by", "site"))["by"]) == ["site"]


def test_webgyms_rule_by_name(dataset):
    found = rows(call(dataset, "--crash-rule", "webgym"))
    assert found["crashed rate"][2] == "2 of 3, by the rule 'webgym'"
    assert found["success rate"][2] == "1 of 1"


async def test_runs_stand_side_by_side_and_one_is_kept(climber, tmp_path):
    await collect(
        RunSpec(preset="ladder/climb", out=tmp_path, episodes=2), agent=climber(), run_id="first"
    )
    await collect(RunSpec(preset="ladder/slip", out=tmp_path), agent=climber(), run_id="second")
    found = rows(call(tmp_path, "--each-run"))
    assert found["episodes"] == ["2", "1"]
    assert found["success rate"] == ["100.0%", "0.0%"]
    assert "run second: 1 of 1 done" in call(tmp_path, "--run", "last")
    kept = tmp_path / "runs" / "first" / "metrics.json"
    before = kept.read_bytes()
    kept.unlink()
    call(tmp_path, "--run", "first", "--write")
    assert kept.read_bytes() == before


def test_what_comes_of_a_task_cannot_speak_to_the_terminal(tmp_path):
    with DatasetWriter(tmp_path) as writer:
        writer.add(make_trajectory(episode_id="e1", task="a\x1b[31mb"))
    output = call(tmp_path, "--by", "task")
    assert "\x1b" not in output
    assert "a\\x1b[31mb" in output


def test_prices_give_a_cost(dataset):
    assert rows(call(dataset, "--price", "qwen*=0.2,0.6"))["cost"][0] == "0.0000"
    assert "cost" not in rows(call(dataset))


def test_damaged_episodes_are_named(dataset):
    (dataset / "episodes" / "e2.json").write_bytes(b"")
    output = call(dataset)
    assert "1 unreadable (e2), `webtraj verify` shows why" in output
    assert rows(output)["success rate"][2] == "1 of 2"


def test_compare_gives_a_verdict_with_its_evidence(tmp_path):
    def played(name, successes, *, broken=0, seeds=True):
        ends = [{}] * successes + [{"outcome": Outcome.FAILURE}] * (10 - successes)
        ends += [{"outcome": Outcome.ENV_ERROR, "reason": EndReason.ERRORED}] * broken
        with DatasetWriter(tmp_path / name) as writer:
            for seed, end in enumerate(ends):
                of = {"seed": seed} if seeds else {}
                writer.add(make_trajectory(["a"], episode_id=f"e{seed}", task="a", **of, **end))
        return tmp_path / name

    two = played("two", 2)
    for other, verdict, evidence, caution in [
        (played("eight", 8), "better", "p = 0.0312 (McNemar, exact), 10 pairs", None),
        (played("seven", 7), "no clear difference", "p = 0.0625", None),
        (played("apart", 8, seeds=False), "better", "share a task and seed", None),
        (played("broken", 8, broken=20), "better", "10 pairs", "The crashed rate differs too"),
    ]:
        said = call("--compare", two, other)
        found = rows(said)
        assert found["success rate"][0] == "20.0% (2/10)"
        line = next(one for one in said.splitlines() if one.startswith(verdict.capitalize()))
        assert evidence in " ".join(said.split())
        assert found["success rate"][2] in line
        assert ("success rates leave" in said) == (caution is not None)
        data = json.loads(call("--compare", two, other, "--json"))
        assert data["verdict"] == verdict
    assert json.loads(call("--compare", other, two, "--json"))["verdict"] == "worse"
    with DatasetWriter(tmp_path / "unjudged") as writer:
        writer.add(make_trajectory(episode_id="e", task="a", outcome=Outcome.UNKNOWN))
    assert "Unknown: one of them has no graded" in call("--compare", two, tmp_path / "unjudged")


@each(
    ("arguments", "message"),
    [
        (["--compare"], "Give two datasets, or one with --each-run"),
        (["--compare", "--html", "x.html"], "--html does not go with --compare"),
        (["--by", "colour"], "Cannot group episodes by 'colour'"),
        (["--run", "nope"], "No run 'nope' in"),
        (["--each-run"], "No runs in"),
        (["--each-run", "--run", "last"], "Give one dataset, and leave out --run"),
        (["--write"], "Give --run"),
        (["--write", "--run", "last", "--where", "task == 'a'"], "leave out --where and --by"),
        (["--write", "--run", "last", "--by", "task"], "leave out --where and --by"),
        (["--price", "qwen=cheap"], "expected MODEL=INPUT,OUTPUT"),
        (["--price", "qwen=-1,2"], "The price input is -1.0"),
        (["--no-steps", "--crash-rule", "webgym"], "WebGym's crash rule needs the actions"),
        (["--pass-at", "0"], "The k of pass@k and pass"),
        (["--where", "nope == 1"], "no field 'nope'"),
    ],
)
def test_what_is_wrong_is_told(dataset, arguments, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        call(dataset, *arguments)


def test_the_iterations_of_a_save_path_stand_side_by_side(tmp_path):
    for number, outcome in enumerate((Outcome.FAILURE, Outcome.SUCCESS), start=1):
        place = tmp_path / "test_trajectories" / f"iteration_{number:04d}"
        with DatasetWriter(place) as writer:
            writer.add(make_trajectory([GoBack()], episode_id="e1", task="a", outcome=outcome))
    found = rows(call(tmp_path))
    assert found["success rate"] == ["0.0%", "100.0%"]
    assert f"{tmp_path}: test 2: 1 episode" in "".join(call(tmp_path).splitlines())
