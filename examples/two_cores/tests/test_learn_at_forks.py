"""The experiment at forks: its policy learns from records, and takes a fork's past for its own."""

import numpy as np

from two_cores.learn_at_forks import BITS, LinearAgent, learned_from, taken_in
from two_cores.pointing import PointingAgent
from webtraj import Decision
from webtraj.agents.models import OpenAICompatibleClient
from webtraj.environments import actions as a
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory, StepRecord, StepType

PAGE = '[1] textbox "Name"\n[2] button "Send"\n[3] link "Other"'
SEEN = {"goal": 'Enter "Bob" as name and click Send.', "axtree": PAGE, "last_action": {}}


def episode(*actions, repeated=0):
    steps = [StepRecord(0, StepType.FIRST, SEEN)]
    for number, action in enumerate(actions, 1):
        source = {"fork": {}} if number <= repeated else {}
        decision = Decision(action=action, metadata=source)
        steps.append(StepRecord(number, StepType.MID, SEEN, action, 0.0, 1.0, decision=decision))
    return EpisodeTrajectory(EpisodeInfo(task="form"), tuple(steps))


def test_the_policy_learns_what_paid_and_not_what_a_fork_repeats():
    repair = episode(a.Fill("1", "Bob"), a.Click("2"), repeated=1)
    ((choice, reply),) = taken_in(repair)
    assert choice.replies[reply].endswith("<w0>")
    zeros = np.zeros(2**BITS)
    before = choice.logprobs(zeros)[reply]
    assert np.isclose(before, -np.log(len(choice.replies)))
    for advantage in (1.0, -1.0):
        after = learned_from(zeros, [((choice, reply), advantage)], 3)
        assert (choice.logprobs(after)[reply] - before) * advantage > 0


async def test_agents_take_the_repeated_steps_of_a_fork_for_their_own(model_server):
    fill = Decision(action=a.Fill("1", "Bob"))
    actor = LinearAgent(np.zeros(2**BITS)).begin_episode(None)
    actor.remember(SEEN, fill)
    assert actor._prompt(SEEN).text.endswith("<did> textbox Name typed Bob <act>")
    model_server.script("?")
    async with OpenAICompatibleClient("fake-model", model_server.url) as client:
        pointing = PointingAgent(client=client).begin_episode(None)
        pointing.remember(SEEN, fill)
        await pointing.act(SEEN)
    assert model_server.requests[0].text.endswith("<did> textbox Name typed Bob <act>")
