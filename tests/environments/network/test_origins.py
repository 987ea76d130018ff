"""Which origins a policy allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj import errors
from webtraj.environments.browser.network import NO_NETWORK, PUBLIC_WEB, OriginPolicy

ALLOWED = [
    ("example.com", "https://example.com/path?q#f"),
    ("example.com", "http://example.com"),
    ("example.com", "https://EXAMPLE.com."),
    ("example.com", "wss://example.com/socket"),
    ("*.example.com", "https://a.b.example.com/"),
    ("https://example.com", "https://example.com:443/"),
    ("http://localhost:8000", "http://localhost:8000/x"),
    ("example.com:*", "http://example.com:8123/"),
    ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
    ("[::1]:8000", "http://[::1]:8000/"),
    ("*", "https://anything.test:8443/"),
]
DENIED = [
    ("example.com", "https://example.com.evil.test/"),
    ("example.com", "https://evilexample.com/"),
    ("example.com", "https://sub.example.com/"),
    ("example.com", "https://example.com@evil.test/"),
    ("example.com", "https://evil.test/example.com"),
    ("example.com", "https://evil.test#example.com"),
    ("example.com", "https://example.com:8443/"),
    ("*.example.com", "https://example.com/"),
    ("https://example.com", "http://example.com/"),
    ("http://localhost:8000", "http://localhost:8001/"),
    ("*", "file:///etc/passwd"),
    ("*", "chrome://version"),
    ("*", "data:text/html,hello"),
    ("*", "javascript:alert(1)"),
    ("*", "view-source:https://example.com"),
    ("*", "https://[bad"),
    ("*", ""),
]


@pytest.mark.parametrize(("pattern", "url"), ALLOWED)
def test_a_pattern_allows_what_it_names(pattern: str, url: str) -> None:
    assert OriginPolicy(allow=(pattern,)).judge_url(url).allowed


@pytest.mark.parametrize(("pattern", "url"), DENIED)
def test_a_pattern_allows_nothing_else(pattern: str, url: str) -> None:
    verdict = OriginPolicy(allow=(pattern,)).judge_url(url)
    assert not verdict.allowed
    assert verdict.reason


def test_deny_goes_before_allow() -> None:
    policy = OriginPolicy(allow=("*",), deny=("ads.test", "*.ads.test"))
    assert policy.judge_url("https://shop.test").allowed
    assert not policy.judge_url("https://ads.test").allowed
    assert not policy.judge_url("https://x.ads.test").allowed


def test_no_network_allows_nothing() -> None:
    assert NO_NETWORK.denies_everything
    assert not NO_NETWORK.judge_url("https://example.com").allowed


SPECIAL = [
    "127.0.0.1", "10.0.0.7", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", SPECIAL)
def test_special_addresses_are_denied_unless_their_host_is_named(address: str) -> None:
    assert not PUBLIC_WEB.judge_address("inside.test", address).allowed
    assert not OriginPolicy(allow=("*.test",)).judge_address("inside.test", address).allowed
    assert OriginPolicy(allow=("inside.test",)).judge_address("inside.test", address).allowed


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert PUBLIC_WEB.judge_address("example.com", address).allowed


@pytest.mark.parametrize(
    "pattern", ["", "exa mple.com", "https://", "ftp://x.test", "x.test:99999", "a/b", "*x.test", 3]
)
def test_a_pattern_off_the_grammar_is_an_error_that_names_it(pattern: object) -> None:
    with pytest.raises(errors.InvalidInputError, match="is no pattern of origins"):
        OriginPolicy(allow=(pattern,))


def test_one_string_is_not_taken_for_many_patterns() -> None:
    with pytest.raises(errors.InvalidInputError, match="is one string"):
        OriginPolicy(allow="example.com")


@given(st.text(max_size=50))
def test_judging_never_raises(url: str) -> None:
    assert isinstance(PUBLIC_WEB.judge_url(url).allowed, bool)
