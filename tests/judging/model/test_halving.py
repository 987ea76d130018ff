"""What is too much for a model is halved and asked again, a few times, on record."""

import pytest

from webtraj.judging.model import replay, rerun
from webtraj.judging.model.case import JudgeSettings
from webtraj.judging.model.evidence import gather, halve
from webtraj.judging.model.votes import messages_of
from webtraj.trajectory import Outcome

PICTURE_TOKENS = 64
LONG_PAGE = "\n".join(f'[{n}] link "Lamp number {n}, of very many"' for n in range(400))


def pictures_in(call):
    return sum(type(part).__name__ == "Image" for m in messages_of(call) for part in m.parts)


def halvings_of(judgement, question):
    return [
        entry.get("halved", 0)
        for entry in judgement.findings["transcript"]
        if entry["question"] == question
    ]


async def length_of(serve, make_judge, judged, episode, **settings):
    """Returns how long the longest conversation on an episode is, as the fake server counts."""
    judgement = await make_judge(serve(judged()), **settings).judge(episode)
    assert judgement.outcome is Outcome.SUCCESS
    return max(call.usage["prompt_tokens"] for call in judgement.model_calls)


async def test_pictures_are_halved_until_they_fit(serve, make_judge, make_episode, judged) -> None:
    settings = {"check_blocked": False, "select_above": 20}
    episode = make_episode(steps=16, answer=None, thought="")
    full = await length_of(serve, make_judge, judged, episode, **settings)
    server = serve(judged(), max_model_len=full - 9 * PICTURE_TOKENS)
    judgement = await make_judge(server, **settings).judge(episode)
    assert judgement.outcome is Outcome.SUCCESS
    assert halvings_of(judgement, "goal") == [0, 1]
    first, second = judgement.model_calls
    assert first.error
    assert (pictures_in(first), pictures_in(second)) == (16, 8)
    shown = server.requests[-1].text
    assert "Of 16 screenshots there is room for 8; the others are left out." in shown
    assert "Screenshot after step 15, the last one:" in shown
    assert "[... 8 steps left out]" in shown
    assert judgement.findings["unanswered"] == []
    assert replay(judgement) == judgement
    # Made again, it goes the same way; and ends at once with a model that can take all of it.
    again = await rerun(judgement, make_judge.client(server))
    assert again.agrees
    assert [messages_of(call) for call in again.judgement.model_calls] == [
        messages_of(call) for call in judgement.model_calls
    ]
    assert replay(again.judgement) == again.judgement
    larger = await rerun(judgement, make_judge.client(serve(judged())))
    assert larger.agrees
    assert len(larger.judgement.model_calls) == 1


async def test_text_of_pages_is_halved_until_it_fits(
    serve, make_judge, make_episode, judged
) -> None:
    settings = {"check_blocked": False, "check_answer": False}
    episode = make_episode(steps=2, pictures=False, page=LONG_PAGE)
    full = await length_of(serve, make_judge, judged, episode, **settings)
    server = serve(judged(), max_model_len=full - len(LONG_PAGE) // 2 - 1500)
    judgement = await make_judge(server, **settings).judge(episode)
    assert judgement.outcome is Outcome.SUCCESS
    assert halvings_of(judgement, "goal") == [0, 1, 2]
    lengths = [len(request.text) for request in server.requests]
    assert lengths == sorted(lengths, reverse=True)
    assert "lines cut]" in server.requests[-1].text
    assert replay(judgement) == judgement


@pytest.mark.parametrize(("halvings", "asked"), [(0, [0]), (1, [0, 1]), (3, [0, 1, 2, 3])])
async def test_it_is_halved_so_often_and_then_a_judge_error(
    halvings, asked, serve, make_judge, make_episode, judged
) -> None:
    server = serve(judged(), max_model_len=50)
    judge = make_judge(server, check_blocked=False, check_answer=False, halvings=halvings)
    judgement = await judge.judge(make_episode(steps=8))
    assert (judgement.outcome, judgement.reward) == (Outcome.JUDGE_ERROR, None)
    assert "too long" in judgement.reason
    assert halvings_of(judgement, "goal") == asked
    assert all(call.error for call in judgement.model_calls)
    assert judgement.findings["unanswered"] == []  # The next time would be the same.
    assert replay(judgement) == judgement


async def test_what_cannot_be_shown_less_is_not_asked_again(
    serve, make_judge, make_episode, judged
) -> None:
    server = serve(judged(), max_model_len=50)
    judge = make_judge(server, check_blocked=False, halvings=10)
    judgement = await judge.judge(make_episode(steps=1, answer=None))
    assert judgement.outcome is Outcome.JUDGE_ERROR
    assert len(server.requests) == 1


async def test_a_model_that_is_gone_is_told_apart(serve, make_judge, make_episode, judged) -> None:
    server = serve(judged())
    judge = make_judge(server, check_blocked=False, check_answer=False)
    server.stop()
    judgement = await judge.judge(make_episode())
    assert judgement.outcome is Outcome.JUDGE_ERROR
    assert judgement.findings["unanswered"] == ["goal"]
    assert replay(judgement) == judgement


@pytest.mark.parametrize("pictures", [True, False], ids=["pictures", "pages"])
def test_halves_are_ever_less_and_never_nothing(make_episode, pictures) -> None:
    settings = JudgeSettings()
    episode = make_episode(steps=40, pictures=pictures, page=LONG_PAGE)
    whole = gather(episode, settings)
    assert halve(whole, episode, settings, 0) is whole
    sizes = []
    for times in range(1, 12):
        less = halve(whole, episode, settings, times)
        sizes.append((len(less.steps), sum(map(len, less.pages.values()))))
        assert less.steps
        assert bool(less.pages) is not pictures
        assert (less.goal, less.facts, less.answer) == (whole.goal, whole.facts, whole.answer)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1][0] < len(whole.steps) // 8
