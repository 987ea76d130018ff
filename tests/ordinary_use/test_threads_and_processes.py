"""Environments in threads, in child processes and in the handlers of web servers."""

import asyncio
import concurrent.futures
import multiprocessing
import wsgiref.util

import pytest

import webtraj
from webtraj import errors

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("nothing_left")]


def make(number=0):
    return webtraj.make("miniwob/click-test", seed=number, observe=["goal", "axtree"])


async def play(number):
    async with make(number) as env:
        await env.reset()
        return (await env.step(await env.cheat())).reward


def play_in_sync(number):
    with webtraj.as_sync(make(number)) as env:
        env.reset()
        return env.step(env.cheat()).reward


def play_alone(number):
    return asyncio.run(play(number))


def in_a_process(method, work, *numbers):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(len(numbers), mp_context=context) as processes:
        return list(processes.map(work, numbers, timeout=240))


def test_spawned_processes():
    assert in_a_process("spawn", play_in_sync, 0, 1) == [1.0, 1.0]


@pytest.mark.parametrize("work", [play_alone, play_in_sync])
def test_forked_processes_while_the_parent_plays(work):
    with webtraj.as_sync(make()) as env:
        env.reset()
        assert in_a_process("fork", work, 1, 2) == [1.0, 1.0]
        assert env.step(env.cheat()).reward == 1.0


def test_an_environment_of_the_parent_is_refused_in_a_fork():
    with webtraj.as_sync(make()) as env:
        env.reset()

        def child(answers):
            try:
                env.step("noop()")
            except errors.EnvironmentMisuseError as error:
                answers.put(str(error))

        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        process.join(120)
        assert process.exitcode == 0
        assert "cannot be used in its fork" in answers.get()
        assert env.step(env.cheat()).reward == 1.0


def test_a_wsgi_handler_makes_one_for_each_request():
    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(play_in_sync(int(environ["PATH_INFO"][1:]))).encode()]

    def request(number):
        environ = {"PATH_INFO": f"/{number}"}
        wsgiref.util.setup_testing_defaults(environ)
        return b"".join(application(environ, lambda *_: None))

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(request, range(6))) == [b"1.0"] * 6
