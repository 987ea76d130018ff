"""When a failed call is tried again."""

import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.store.bucket_requests import RetryPolicy, Secrets, UnreachedError, understand
from webtraj.store.places import open_storage


class Clock:
    """A clock that only sleep and work move on."""

    def __init__(self):
        self.now = 100.0
        self.delays = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.delays.append(seconds)
        self.now += seconds


def policy(clock, **options):
    return RetryPolicy(clock=clock, sleep=clock.sleep, **options)


def test_what_is_unavailable_is_tried_again():
    clock, results = Clock(), [errors.StorageUnavailableError("a")] * 3 + [7]

    def attempt():
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    assert policy(clock).run(attempt) == 7
    assert len(clock.delays) == 3


@each("error", [errors.StorageDeniedError, errors.StorageMissingError, errors.StorageConflictError,
     errors.StorageError, ValueError, KeyboardInterrupt])  # fmt: skip
def test_nothing_else_is(error):
    clock = Clock()

    def attempt():
        raise error

    with pytest.raises(error):
        policy(clock).run(attempt)
    assert clock.delays == []


@given(
    seed=st.integers(0, 1000),
    deadline=st.floats(0, 300),
    first=st.floats(0.01, 2),
    work=st.floats(0, 30),
)
def test_no_attempt_begins_after_the_deadline_and_the_last_one_near_it(seed, deadline, first, work):
    clock, begun = Clock(), []

    def attempt():
        begun.append(clock.now - 100)
        clock.now += work + 1e-6
        raise errors.StorageUnavailableError("away")

    with pytest.raises(errors.StorageUnavailableError) as caught:
        policy(clock, deadline=deadline, first_delay=first, random=random.Random(seed).random).run(
            attempt
        )
    assert all(moment <= deadline + 1e-6 for moment in begun)
    assert clock.now - 100 >= deadline
    assert caught.value.__notes__ == [
        f"Given up after {len(begun)} attempts in {clock.now - 100:.1f} s."
    ]


def test_what_was_never_reached_is_given_up_sooner():
    for error, most in ((UnreachedError, 10), (errors.StorageUnavailableError, 120)):
        clock = Clock()
        with pytest.raises(error):
            policy(clock).run(lambda error=error: (_ for _ in ()).throw(error()))
        assert clock.now == pytest.approx(100 + most)


def test_a_store_that_refuses_connections_was_never_reached():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    options = {"access_key_id": "a" * 20, "secret_access_key": "b" * 40, "allow_http": True}
    retry = {"deadline": 0.0, "first_contact": 0.0}
    storage = open_storage("s3://bucket", {**options, "endpoint": endpoint, "retry": retry})
    with pytest.raises(UnreachedError, match="cannot reach the store"):
        storage.size("a")


def test_the_jitter_is_full():
    delays = []
    for seed in range(500):
        clock = Clock()
        with pytest.raises(errors.StorageUnavailableError):
            policy(
                clock,
                deadline=20,
                first_delay=1,
                longest_delay=4,
                random=random.Random(seed).random,
            ).run(lambda: (_ for _ in ()).throw(errors.StorageUnavailableError()))
        delays.append(clock.delays[:4])
    for number, longest in enumerate([1, 2, 4, 4]):
        drawn = sorted(delay[number] for delay in delays)
        assert 0 <= drawn[0] < longest / 20
        assert longest * 19 / 20 < drawn[-1] <= longest
        assert abs(drawn[250] - longest / 2) < longest / 8


def test_a_reason_has_no_secret_and_not_what_the_client_prints_for_its_developers():
    secrets = Secrets({"secret_access_key": "hunter2hunter2", "region": "eu-north-1"})
    error = ValueError("Odd: hunter2hunter2 in eu-north-1.\n\nDebug source:\nOdd { headers: 7 }")
    assert understand(error, secrets).reason == "Odd: *** in eu-north-1"
