"""A report's data, file and command. Tests of the page are in `tests/view/page`."""

import collections
import json
import re
import urllib.parse

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors, open_dataset
from webtraj.cli.app import make_app
from webtraj.datasets.place import absolute_place
from webtraj.metrics.comparison import subjects_of
from webtraj.metrics.report import make_report
from webtraj.net.local_pages import DEFAULT_PORT
from webtraj.view.report import MARK, report_data, write_report
from webtraj.view.table import parse_query
from webtraj.view.viewer import Viewer


def run(*arguments):
    """Calls the command."""
    command = ["metrics", "--html", "report.html", *map(str, arguments)]
    return CliRunner().invoke(make_app(), command)


def tables(data, title):
    """Returns the rows of the tables of a section."""
    (section,) = [one for one in data["sections"] if one["title"] == title]
    return [part["table"]["rows"] for part in section["parts"] if "table" in part]


def test_numbers_are_those_of_the_comparison(two_named):
    report = make_report([subjects_of(place)[0] for place in two_named(("one", "two"))])
    (comparison,) = report.comparisons
    data = report_data(report)
    title = f"{comparison.second_name} compared with {comparison.first_name}"
    (name, drawn, first, _, _, interval), *_ = tables(data, title)[0]
    rate = comparison.rates[0]
    assert name == "success rate"
    assert first == f"{rate.first.value:.1%} ({rate.first.numerator}/{rate.first.denominator})"
    low, high = rate.interval
    assert interval == f"{100 * low:+.1f} to {100 * high:+.1f}"
    mark = {"series": 0, "name": "", "value": rate.value, "low": low, "high": high}
    assert drawn == {"intervals": [mark], "signed": True}
    text = json.dumps(data["sections"])
    assert f"Of {comparison.pairs.number} pairs" in text
    assert f"p = {comparison.pairs.p:.3g}" in text
    by_task = tables(data, "By task")[0]
    assert [row[0] for row in by_task] == ["one", "two"]
    for row in by_task:
        for point, (_, of) in zip(row[1]["intervals"], report.main_points, strict=True):
            assert point["value"] == of.report.by["task"][row[0]].success_rate.value


def test_it_begins_with_the_result_and_links_to_the_episodes(play, ends_by):
    place = play("data", ("one", "two"), ends_by(0.5))
    report = make_report(subjects_of(place))
    data = report_data(report)
    graded = report.points[0][1].report.overall.success_rate
    (name, health), (same, said) = data["headline"]
    assert name == same == place
    assert health.startswith("8 episodes; ")
    assert f"{graded.value:.1%} success, {graded.numerator} of {graded.denominator}" in said
    links = re.findall(r'"link": "([^"]*)"', json.dumps(data))
    assert links
    with Viewer([place]) as viewer:
        for link in links:
            if "#/episode/" in link:
                named, episode = map(urllib.parse.unquote, link.split("/")[-2:])
                assert named == absolute_place(place)
                assert episode in open_dataset(place)
            else:
                query = parse_query(urllib.parse.parse_qsl(link.partition("?")[2]))
                assert 0 < viewer.page(query).total <= len(open_dataset(place))
    assert f"webtraj view {place} --port {DEFAULT_PORT}" in data["about"][1]


def test_a_report_takes_the_place_of_a_report_and_of_nothing_else(play, ends_by, tmp_path):
    report = make_report(subjects_of(play("data", ("one",), ends_by(0.5)), steps=False))
    path = tmp_path / "new folder" / "report.html"
    write_report(report, path)
    write_report(report, path)
    assert MARK in path.read_text(encoding="utf-8")
    other = tmp_path / "thesis.html"
    other.write_text("<p>years of work</p>")
    with pytest.raises(errors.InvalidInputError, match="is not a webtraj report"):
        write_report(report, other)
    assert other.read_text() == "<p>years of work</p>"
    with pytest.raises(errors.InvalidInputError, match="Cannot write"):
        write_report(report, tmp_path)


def test_command_writes_a_page(play, ends_by, tmp_path):
    place = play("data", ("one", "two"), ends_by(0.5))
    out = tmp_path / "out.html"
    done = run(place, "--html", out, "--title", "Mine")
    assert done.exit_code == 0, done.output
    assert f"Report: {out}" in done.stdout
    assert '"title":"Mine"' in out.read_text()


def test_command_prints_json(play, ends_by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = play("first", ("one", "two"), ends_by(0.2))
    second = play("second", ("one", "two"), ends_by(0.8))
    data = json.loads(run(first, second, "--json").stdout)
    assert [subject["name"] for subject in data["subjects"]] == [first, second]
    (comparison,) = data["comparisons"]
    before, after = comparison["rates"][0]["first"], comparison["rates"][0]["second"]
    assert comparison["rates"][0]["difference"] == pytest.approx(after["value"] - before["value"])
    assert data["subjects"][0]["points"][0]["metrics"]["overall"]["total"] == 8


@each(
    ("arguments", "error", "message"),
    [
        (["nowhere"], errors.NotADatasetError, "No dataset at"),
        (["a", "b", "--each-run"], errors.InvalidInputError, "Give one dataset"),
        (["a", "--each-run", "--run", "last"], errors.InvalidInputError, "leave out --run"),
        (["a", "--where", "1 +"], errors.InvalidInputError, "1 +"),
    ],
)
def test_wrong_input_of_a_report_is_named(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert isinstance(done.exception, error)
    assert re.search(re.escape(message), str(done.exception))
    assert list(tmp_path.iterdir()) == []


def test_failures_are_listed_by_who_caused_them(play):
    def ends(task, seed):
        return {"one": "failure", "two": "crash"}[task]

    place = play("data", ("one", "two"), ends, attempts=2)
    arguments = ["metrics", place, "--failures"]
    done = CliRunner().invoke(make_app(), arguments)
    assert done.exit_code == 0
    assert [" ".join(line.split()) for line in done.stdout.splitlines()[1:3]] == [
        "agent wrong result 2 1",
        "environment BrowserCrashedError 2 1",
    ]
    assert "\nagent, wrong result: one, " in done.stdout
    assert "  step 1: do" in done.stdout
    assert "  end: do: its result was never seen" in done.stdout
    assert "  reason: it <b>broke</b>" in done.stdout
    lines = CliRunner().invoke(make_app(), [*arguments, "--json"]).stdout.splitlines()
    failures = [json.loads(line) for line in lines]
    assert collections.Counter(one["cause"] for one in failures) == {"agent": 2, "environment": 2}
    both = CliRunner().invoke(make_app(), [*arguments, place]).stdout.splitlines()
    assert both.count(f"{place}:") == 2
    refused = CliRunner().invoke(make_app(), [*arguments, "--by", "task"])
    assert refused.exit_code != 0
    assert "--by does not go with --failures" in str(refused.exception)
