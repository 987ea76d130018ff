"""Rollouts that are judged: by a model over HTTP, beside the episodes, whatever goes wrong."""

import asyncio
import dataclasses
import errno
import io
import json

import dm_env
import pytest
from PIL import Image

from rows import each
from webtraj import Outcome, errors, open_dataset, registry
from webtraj.datasets.verification import verify
from webtraj.judging.environment import EnvironmentJudge
from webtraj.metrics import read_metrics
from webtraj.rollouts import RunSpec, TaskSpec, collect
from webtraj.rollouts.configuration.builder import build_rollout, resume_run
from webtraj.rollouts.judging import judge_rollout
from webtraj.rollouts.samplers import Blocklist
from webtraj.runs.run import Run
from webtraj.store.places import open_storage
from webtraj.testing.model_server import FakeModelServer, Reply

SAYS = {
    "blocked": "Did the site keep the agent from its task",
    "fact": "Judge one fact and no other",
    "goal": "Judge the whole task",
    "screenshot": "You see one screenshot of several.",
}


class Shop:
    """Two pages of text; what came of it, the environment does not know, but of `known`."""

    def __init__(self, tasks):
        (self.task,) = tasks

    def describe_episode(self):
        return {"task": self.task}

    def episode_outcome(self):
        return Outcome.FAILURE if self.task == "known" else Outcome.UNKNOWN

    async def reset(self):
        return dm_env.restart(self._page(0))

    async def step(self, action):
        if self.task == "breaks":
            raise errors.BrowserCrashedError("it broke")
        return dm_env.termination(0.0, self._page(1))

    async def cheat(self):
        return "up"

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        pass

    def _page(self, number):
        picture = io.BytesIO()
        Image.new("RGB", (8, 8), (number * 90, 80, 120)).save(picture, "PNG")
        return {
            "url": f"http://{self.task}.example/{number}",
            "title": self.task,
            "axtree": f'[1] heading "The page of {self.task}"',
            "screenshot": picture.getvalue(),
        }


SHOPS = ("sells", "refuses", "shut", "known", "breaks")
"""In truth: a success, a failure, a site that blocks; the others are not asked about."""


def truth(request):
    """The rule of a judge that knows."""
    kind = next(name for name, words in SAYS.items() if words in request.text)
    if kind == "screenshot":
        return said("keep")
    if kind == "blocked":
        return said("blocked" if "shut" in request.text else "open")
    return said("failure" if "refuses" in request.text else "success")


def said(verdict):
    return json.dumps({"reasoning": "It was seen.", "verdict": verdict})


def task(name):
    return TaskSpec(
        name=name, preset=f"shop/{name}", goal=f"Buy at {name}.", site=f"{name}.example"
    )


@pytest.fixture
def shops(ladder):
    for name in SHOPS:
        registry.register(f"shop/{name}", Shop, tasks=(name,))


@pytest.fixture
def shop_world(world, shops, write_rows):
    write_rows(world / "shops.jsonl", [task(name).to_data() for name in SHOPS])
    return world


ROLLOUT = (
    "env_config.train_tasks=shops.jsonl",
    "env_config.train_tasks_sampler=sequential",
    "policy_config.agent=oracle",
)


def asking(server, *more):
    return (
        *ROLLOUT, "openai_config.model=fake-model", f"openai_config.base_url={server.url}",
        "openai_config.provider=openai", *more,
    )  # fmt: skip


def outcomes(place):
    return {s.task: s.outcome.name for s in open_dataset(place).summaries}


def recorded(place):
    """Returns the outcomes that were recorded, whatever judges have said."""
    files = open_dataset(place).place.read_index().values()
    return {s.task: s.outcome.name for file in files for s in file.summaries}


RECORDED = {
    "sells": "UNKNOWN", "refuses": "UNKNOWN", "shut": "UNKNOWN", "known": "FAILURE",
    "breaks": "ENV_ERROR",
}  # fmt: skip
JUDGED = RECORDED | {"sells": "SUCCESS", "refuses": "FAILURE", "shut": "BLOCKED"}


async def test_what_is_not_known_is_judged_beside_what_was_recorded(build, shop_world):
    with FakeModelServer(truth) as server:
        rollout = build(*asking(server))
        summary = await rollout.play()
    assert recorded(rollout.out) == RECORDED
    assert outcomes(rollout.out) == JUDGED
    assert (summary.judged.place, summary.judged.complete) == (rollout.out, True)
    told = {result.task: result.outcome.name for result in summary.scored.results}
    assert told["sells"] == "SUCCESS"
    by_shop = {t.info.task: t for t in open_dataset(rollout.out)}
    assert [one.judge for one in by_shop["sells"].end.judgements] == ["model"]
    assert by_shop["known"].end.judgements == ()
    assert verify(rollout.out).clean
    # Its metrics go by what was judged.
    kept = read_metrics(Run(open_storage(rollout.out), rollout.run_id))["overall"]
    assert [kept["success_rate"][key] for key in ("numerator", "denominator")] == [1, 3]


async def test_sites_that_a_judge_finds_blocked_are_left_out_of_the_next_iteration(
    build, shop_world
):
    with FakeModelServer(truth) as server:
        rollout = build(*asking(server))
        await rollout.play()
        blocklist = Blocklist(shop_world / "runs" / "blocklist.jsonl")
        assert blocklist.sites() == {"shut.example"}
        # To judge again, with nothing left, adds nothing; and the time is the episode's own.
        await build(*asking(server), resume=True).play()
    (line,) = map(json.loads, blocklist.path.read_text().splitlines())
    ended = {s.episode_id: s.end_time for s in open_dataset(rollout.out).summaries}
    assert line["blocked_at"] == ended[line["episode_id"]]
    names = {planned.task for planned in build(*ROLLOUT).plan}
    assert names == {name for name in SHOPS if name != "shut"}


async def test_always_judges_what_the_environment_knows_too(build, shop_world):
    with FakeModelServer(truth) as server:
        summary = await build(*asking(server, "judge_when=always")).play()
    assert outcomes(summary.judged.place) == JUDGED | {"known": "SUCCESS"}


async def test_episodes_whose_judge_was_away_wait_for_the_next_run(build, shop_world):
    down = {"refuses"}

    def rule(request):
        if any(name in request.text for name in down):
            return Reply.error(400)
        return truth(request)

    with FakeModelServer(rule) as server:
        rollout = build(*asking(server))
        summary = await rollout.play()
        judged = summary.judged
        assert len(judged.failures) == 1
        assert not judged.complete
        assert outcomes(rollout.out) == JUDGED | {"refuses": "UNKNOWN"}
        asked = len(server.requests)
        down.clear()
        summary = await build(*asking(server), resume=True).play()
        assert {"refuses"} == {
            name for name in SHOPS for one in server.requests[asked:] if name in one.text
        }
    assert summary.judged.complete
    assert outcomes(rollout.out) == JUDGED


async def test_a_verdict_that_is_none_is_a_judge_error_and_no_failure(build, shop_world):
    def rule(request):
        return "Well done!" if "sells" in request.text else truth(request)

    with FakeModelServer(rule) as server:
        summary = await build(*asking(server)).play()
    assert summary.judged.complete
    assert outcomes(summary.judged.place) == JUDGED | {"sells": "JUDGE_ERROR"}


async def test_the_verdict_of_another_judge_comes_on_top(build, shop_world):
    with FakeModelServer(truth) as server:
        rollout = build(*asking(server))
        await rollout.play()
    with FakeModelServer(lambda request: truth(request).replace("refuses", "sells")) as server:
        more = ("openai_config.votes=3", "judge_when=always")
        summary = await build(*asking(server, *more), resume=True).play()
    assert summary.judged.complete
    by_shop = {t.info.task: t for t in open_dataset(rollout.out)}
    versions = {one.version for one in by_shop["sells"].end.judgements}
    assert len(versions) == len(by_shop["sells"].end.judgements) == 2
    assert len(by_shop["known"].end.judgements) == 1
    assert outcomes(rollout.out) == JUDGED | {"known": "SUCCESS"}


@each(
    ("overrides", "told"),
    [
        (["judge=model"], "set openai_config.model"),
        (
            ["judge=environment", "openai_config.model=m"],
            "openai_config.model applies only to the judge",
        ),
        (["openai_config.votes=3"], "openai_config.model is not set"),
        (
            ["openai_config.model=m", "openai_config.judge_settings={model: n}"],
            "set it in openai_config itself",
        ),
        (["openai_config.model=m", "openai_config.evaluation.modle=n"], "evaluation.model"),
        (["judge_when=never"], "judge_when"),
    ],
)
def test_keys_of_judges_that_do_not_fit_are_told(overrides, told, build, world):
    with pytest.raises(errors.InvalidInputError, match=told):
        build(*overrides)


async def test_ranks_judge_into_one_dataset_each_in_its_turn(build, shop_world):
    share = ("iteration=1", "env_config.multinode_total_workers=2")
    with FakeModelServer(lambda request: Reply(truth(request), delay=0.02)) as server:
        ranks = [
            build(*asking(server, *share, f"env_config.multinode_rank={number}"))
            for number in (0, 1)
        ]
        one, two = await asyncio.gather(*(rank.play() for rank in ranks))
    assert one.judged.complete
    assert two.judged.complete
    assert one.judged.place == two.judged.place
    assert outcomes(one.judged.place) == JUDGED
    lines = (shop_world / "runs" / "blocklist.jsonl").read_text().splitlines()
    assert len(lines) == 1


async def test_judges_of_one_dataset_wait_for_each_other(tmp_path, caplog):
    asked = []

    class Slow(EnvironmentJudge):
        async def judge(self, trajectory):
            asked.append(trajectory.episode_id)
            await asyncio.sleep(0.1)
            return await super().judge(trajectory)

    await collect(RunSpec(preset="ladder/climb", agent="oracle", out=tmp_path))
    (run_id,) = [path.name for path in (tmp_path / "runs").iterdir()]
    judging = [judge_rollout(tmp_path, run_id, Slow(), when="always") for _ in range(2)]
    assert [judged.verdicts for judged in await asyncio.gather(*judging)] in ([1, 0], [0, 1])
    assert len(asked) == 1
    (waits,) = [record.getMessage() for record in caplog.records]
    assert waits == f"Another process judges {tmp_path}. Waiting for it."


async def test_a_file_system_without_locks_is_judged_all_the_same(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    given = {"preset": ["ladder/climb"], "judge": "environment", "judge_when": "always"}
    summary = await build_rollout(RunSpec(**given, out=str(tmp_path))).play()
    assert (summary.judged.verdicts, summary.judged.stopped) == (1, "")


async def test_quick_rollouts_are_judged_on_resume(shops, tmp_path):
    out = str(tmp_path / "quick")
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{success: {title: {contains: known}}}]")
    given = {
        "preset": ["shop/known"], "judge": f"rules:{rules}", "judge_when": "always",
    }  # fmt: skip
    rollout = build_rollout(RunSpec(**given, out=out))
    await rollout.only_play()
    assert outcomes(out) == {"known": "FAILURE"}
    summary = await resume_run({}, out=out).play()
    assert summary.judged.place == out
    assert recorded(out) == {"known": "FAILURE"}
    assert outcomes(out) == {"known": "SUCCESS"}
    with pytest.raises(errors.InvalidInputError, match="without a judge"):
        build_rollout(RunSpec(preset=["shop/known"], judge_when="always", out=out))


async def test_the_library_judges_what_it_collects(shops, tmp_path):
    from webtraj.judging.environment import EnvironmentJudge

    judge = EnvironmentJudge(success_reward=0.0)
    summary = await collect(
        RunSpec(agent="oracle", out=tmp_path / "out"),
        tasks=[task("sells"), task("known")],
        judge=judge,
    )
    assert {o.name for o in summary.judged.outcomes.values()} == {"SUCCESS", "FAILURE"}
    with pytest.raises(errors.InvalidInputError, match="judge works only with out"):
        await collect(RunSpec(agent="oracle"), tasks=[task("sells")], judge=judge)
    with pytest.raises(errors.InvalidInputError, match="'sometimes'"):
        await judge_rollout(tmp_path / "out", "r", judge, when="sometimes")


class Vague:
    """A judge whose answers are none."""

    name, version = "vague", "1"

    async def judge(self, trajectory):
        return "good enough"


async def test_a_judge_that_gives_no_judgements_costs_no_summary(shops, tmp_path):
    always = RunSpec(agent="oracle", out=tmp_path / "a", judge_when="always")
    summary = await collect(always, tasks=[task("known")], judge=Vague())
    assert len(summary.results) == 1
    assert "'vague' returned 'good enough'" in summary.judged.stopped
    for judge in (lambda episode: True, object()):
        with pytest.raises(errors.InvalidInputError, match="no method `judge`"):
            await collect(
                RunSpec(agent="oracle", out=tmp_path / "b"), tasks=[task("known")], judge=judge
            )
    assert not (tmp_path / "b").exists()


async def test_a_bucket_is_judged_in_the_bucket(build, shop_world):
    place = ("save_path=memory://judged-rollouts/runs", "env_config.blocklist_path=null")
    with FakeModelServer(truth) as server:
        summary = await build(*asking(server, *place)).play()
    assert summary.judged.complete
    assert outcomes(summary.judged.place) == JUDGED
    assert summary.judged.place.startswith("memory://judged-rollouts/runs/train_trajectories/")


async def test_a_crawl_proposes_for_what_was_seen(build, world, shops, write_rows):
    registry.unregister("web")
    registry.register("web", _Site, uses_browser=False)
    write_rows(
        world / "coarse.jsonl", [{"url": "http://shop.example", "description": "Look at lamps."}]
    )
    given = (
        f"source_parquet_path={world}/coarse.jsonl", "agent_name=oracle", "proposer=hindsight",
        "max_repetitive_actions=null",
    )  # fmt: skip
    rollout = build(*given, name="crawled")
    summary = await rollout.play()
    assert summary.proposed.episodes == 1
    assert [task.metadata["kind"] for task in summary.proposed.tasks][:1] == ["navigation"]
    again = await build(*given, name="crawled", resume=True).play()
    assert (again.proposed.new, again.proposed.tasks) == (0, summary.proposed.tasks)
    fine = dataclasses.asdict(task("sells"))
    write_rows(world / "fine.jsonl", [{"preset": "shop/sells", "goal": fine["goal"]}])
    with pytest.raises(errors.InvalidInputError, match="is not coarse"):
        build(*given, f"source_parquet_path={world}/fine.jsonl", name="crawled")


class _Site(Shop):
    """A site of two pages, the second behind a link."""

    def __init__(self, **given):
        super().__init__(("site",))
        self._url = "http://shop.example/"

    def describe_episode(self):
        return {"site": "shop.example"}

    async def cheat(self):
        from webtraj.environments import actions

        return actions.Click("1")

    def _page(self, number):
        from webtraj.environments.browser.observer import describe_action

        done = (
            {**describe_action(), "role": "link", "name": "Products"}
            if number
            else describe_action()
        )
        return {
            "url": "http://shop.example/" + ("products" if number else ""),
            "title": "Products" if number else "Welcome",
            "axtree": '[11] heading "Products"' if number else '[1] link "Products"',
            "http_status": 200,
            "last_action": done,
        }
